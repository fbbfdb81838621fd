"""The findings for a terminal of 80 columns or more. Reads the dictionary of `report.audit`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from verify.audit.conclusion import (
    counted,
    lacking_steps,
    listed,
    reason_text,
    short,
    short_exact,
    tau_star,
)

_REASONS = 6  # sentences about parting that are printed for a code


def render(found: dict[str, Any], width: int = 80) -> str:
    """The whole report as text, lines at most `width` wide (tables need 80)."""
    width = max(width, 80)
    lines = [_headline(found["data"], width), *_read(found["data"], width), "", "Conclusion"]
    for sentence in found["conclusion"]:
        lines += _wrapped(sentence, width, "  - ")
    for section in (_exact, _finite, _temperature):
        lines += ["", *section(found, width)]
    return "\n".join(line.rstrip() for line in lines)


def _read(data: dict[str, Any], width: int) -> list[str]:
    """What was read and what was left out."""
    about = data["reading"]
    if not about:
        return []
    names = about["columns"]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    text = f"Read {counted(about['rows'], 'row')} of {counted(len(names), 'column')}: {shown}"
    how = [f"values as {about['values']}"]
    if about.get("delimiter") is not None:
        named = {"\t": "tabs", " ": "blanks"}.get(about["delimiter"], repr(about["delimiter"]))
        how.append(f"separated by {named}")
    if about.get("decimal") == ",":
        how.append("decimal comma")
    lines = _wrapped(f"{text} ({', '.join(how)}).", width, "")
    for sentence in left_out(about):
        lines += _wrapped(sentence, width, "")
    return lines


def left_out(about: dict[str, Any]) -> list[str]:
    """Sentences on what a reader left out of a table."""
    found = [f"Left out: {left['column']}, {left['reason']}." for left in about.get("left_out", ())]
    if about.get("rows_left_out"):
        lost = counted(about["rows_left_out"], "row")
        found.append(f"Left out: {lost} with missing values.")
    return found


def _headline(data: dict[str, Any], width: int) -> str:
    start = {
        "first-k": f"the first {data['k']} points",
        "random": f"{data['k']} random points (seed {data['seed']})",
        "k-means++": f"k-means++ (seed {data['seed']})",
    }.get(data["init"], f"the centers in {data['init']}")
    text = (
        f"{data['source']}: n = {data['n']} points, d = {data['d']}, k = {data['k']}, from {start}"
    )
    extra = []
    if data["distinct_points"] < data["n"]:
        repeated = data["n"] - data["distinct_points"]
        extra.append(f"{counted(repeated, 'repeated point')}")
    if data["constant_columns"]:
        columns = data["constant_columns"]
        shown = listed("column", columns) if len(columns) <= 8 else f"{len(columns)} columns"
        extra.append(f"{shown} constant")
    if data["scale"] != "none":
        extra.append(f"scaled ({data['scale']})")
    return "\n".join(textwrap.wrap("; ".join([text, *extra]), width))


def _exact(found: dict[str, Any], width: int) -> list[str]:
    rows = [
        [
            str(s["step"]),
            short_exact(s["margin"]),
            str(s["tied_points"]),
            str(len(s["empty_clusters"])),
            str(sum(len(g) for g in s["equal_centers"])),
            short(s["objective"], 6),
            _unsure(s["float32"]),
            _unsure(s["float64"]),
        ]
        for s in found["exact"]["steps"]
    ]
    head = ["step", "margin", "ties", "empty", "equal", "k-means loss", "float32", "float64"]
    lines = ["Lloyd's steps, exact", *_table(head, rows)]
    lines += _wrapped(
        "margin: smallest excess of the second nearest squared distance over the nearest; equal: "
        "equal centers; float32, float64: points whose assignment rounding may change, and in "
        "parentheses those that it did change.",
        width,
        "  ",
    )
    for track in found["exact"]["codes"]:
        if track["equal"]:
            continue
        lines += ["", f"Why they part in step {track['parts_at_step']} ({track['code']} code)"]
        for reason in track["reasons"][:_REASONS]:
            lines += _wrapped(reason_text(reason), width, "  - ")
        more = len(track["reasons"]) - _REASONS
        if more > 0:
            lines += _wrapped(f"and {counted(more, 'more reason')} of these kinds", width, "  - ")
        row = track["differing_centers"][0]
        lines += _wrapped(f"For example center {row['center']}{_difference(row)}.", width, "  ")
    return lines


def _difference(row: dict[str, Any]) -> str:
    """How far apart, and the first coordinate in which it shows."""
    text = f": {short(row['distance'])} apart"
    for axis, (lloyd, other) in enumerate(zip(row["lloyd"], row["transformer"], strict=True)):
        for digits in (6, 17):
            a, b = short(lloyd, digits), short(other, digits)
            if a != b:
                return f"{text}; coordinate {axis} is {a} for Lloyd, {b} for the transformer"
    return text


def _unsure(cell: dict[str, Any]) -> str:
    if cell["problem"]:
        return "-"
    return "0" if not cell["undecided"] else f"{cell['undecided']} ({cell['wrong']})"


def _finite(found: dict[str, Any], width: int) -> list[str]:
    section = found["finite"]
    title = f"Finite inverse temperature gamma, error at most {short(section['epsilon'])}"
    lines = [title]
    notes: dict[str, None] = {}
    if section["steps_certified"] and found["data"]["k"] > 1:
        given = section["gamma_given"] is not None
        head = ["code", "d_emb", "step", "gamma*"] + (["bound"] if given else [])
        head += ["sure 64", "run 64", "sure 32", "run 32"]
        rows = []
        for row in section["codes"]:
            cells = [row["code"], str(row["d_emb"]), short(row["hardest_step"])]
            cells += [short(row["gamma_star"])] + ([_bound(row["bound"])] if given else [])
            for kind in ("float64", "float32"):
                sure = row[kind]["certified_at"]
                cells += [
                    short(sure) if isinstance(sure, float) else "no",
                    short(row[kind]["measured"], 2),
                ]
                if row[kind]["skipped"]:
                    notes[row[kind]["skipped"]] = None
            rows.append(cells)
        lines += _table(head, rows, left=1)
        asked = {t["code"] for t in found["exact"]["codes"]}
        for row in section["codes"]:
            if row["code"] in asked and len(row["gamma_star_by_step"]) > 1:
                pairs = zip(section["steps_certified"], row["gamma_star_by_step"], strict=True)
                each = ", ".join(f"{short(g)} (step {n})" for n, g in pairs)
                lines += _wrapped(f"gamma* of the {row['code']} code: {each}", width, "  ")
        at = f"gamma = {short(section['gamma_given'])}" if given else "gamma*"
        lines += _wrapped(
            "gamma*: from here on a layer is certain to end within the error, in real arithmetic, "
            "at the step that needs most; sure: an inverse temperature at which the bound with "
            f"all rounding of float64, float32 is below the error too; run: error of the layer as "
            f"computed in float64, float32 at {at}.",
            width,
            "  ",
        )
        for note in notes:
            lines += _wrapped(f"not run (-): {note}", width, "  ")
    for missing in lacking_steps(section):
        lines += _wrapped(f"no certificate: {missing}", width, "  ")
    if found["data"]["k"] == 1:
        lines += ["  with one center every inverse temperature gives Lloyd's step"]
    return lines


def _bound(value: Any) -> str:
    if value == "infinity":
        return "none"
    return "< 1e-99" if isinstance(value, float) and value < 1e-99 else short(value)


def _temperature(found: dict[str, Any], width: int) -> list[str]:
    both = found["temperature"]
    after = f"after {counted(found['data']['steps'], 'step')}"
    lines = ["Temperature tau: how far the regularized loss is above the k-means loss"]
    for name, part in (("initial centers", both["initial"]), (after, both["final"])):
        point = "" if part["tau_star_point"] is None else f" (point {part['tau_star_point']})"
        text = f"{name}: k-means loss {short(part['objective'], 6)}, "
        text += f"L2 gap zero {tau_star(part)}{point}"
        lines += _wrapped(text, width, "  ")
        if part["problem"]:
            lines += _wrapped(f"no gaps: {part['problem']}", width, "    ")
    if both["initial"]["problem"] or both["final"]["problem"]:
        return lines
    rows = [
        [short(a["tau"]), a["regularizer"], *_gap_cells(a), *_gap_cells(b)]
        for a, b in zip(both["initial"]["gaps"], both["final"]["gaps"], strict=True)
    ]
    head = ["tau", "loss", "gap", "of loss", "of cap", "gap", "of loss", "of cap"]
    lines += ["", f"                        {'initial centers':<30}{after}"]
    lines += _table(head, rows, left=2)
    lines += _wrapped(
        "of loss: relative to the k-means loss; of cap: relative to the largest gap that n points "
        "can have at this temperature.",
        width,
        "  ",
    )
    lines += ["", "  Largest tau whose gap is at most a share of the k-means loss"]
    rows = []
    for a, b in zip(both["initial"]["safe"][::2], both["final"]["safe"][::2], strict=True):
        cells = [a["regularizer"]]
        for part in (both["initial"], both["final"]):
            cells += [short(s["tau"]) for s in part["safe"] if s["regularizer"] == b["regularizer"]]
        rows.append(cells)
    head = ["loss", "1 %", "10 %", "1 %", "10 %"]
    lines += [f"              {'initial centers':<20}{after}", *_table(head, rows, left=1)]
    if any(p["objective"] == 0 for p in both.values()):
        lines += ["  the k-means loss is zero, so there is no relative gap"]
    return lines


def _gap_cells(row: dict[str, Any]) -> list[str]:
    return [short(row["gap"]), _percent(row["relative"]), _percent(row["share_of_cap"])]


def _percent(value: float | None) -> str:
    if value is None:
        return "-"
    return "< 0.01 %" if 0 < value < 1e-4 else f"{short(100 * value)} %"


def _table(head: list[str], rows: Sequence[list[str]], left: int = 0) -> list[str]:
    """Columns as wide as needed; the first `left` are flush left, numbers flush right."""
    every = [head, *rows]
    widths = [max(len(r[c]) for r in every) for c in range(len(head))]
    return [
        "  "
        + "  ".join(
            cell.ljust(w) if c < left else cell.rjust(w)
            for c, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in every
    ]


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=" " * len(indent)
    ) or [indent]
