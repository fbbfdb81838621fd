"""The ledger in the shape of the report: what stands where, as plain values and texts.

`html` and `markdown` only decide how it looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from verify.claim import Case, Kind, Method, Verdict
from verify.collection import OWN
from verify.report import figures
from verify.report.findings import findings
from verify.report.tested import tested
from verify.report.text import (
    case_line,
    count,
    decimal,
    exact,
    number,
    ratio,
    shorten,
    shown,
    typeset,
)

Json = Mapping[str, Any]

SYMBOLS = {
    Verdict.PROVED: "■",
    Verdict.CONFIRMED: "✓",
    Verdict.SHARPENED: "▲",
    Verdict.QUALIFIED: "◐",
    Verdict.REFUTED: "✗",
    Verdict.REPRODUCED: "✓",
    Verdict.PARTLY: "◐",
    Verdict.NOT_REPRODUCED: "✗",
    Verdict.NOT_TESTABLE: "–",
    Verdict.OPEN: "○",
}
"""A sign that stands beside a verdict, so that color is never alone."""

_STATEMENTS = (Method.SYMBOLIC, Method.SMT, Method.MACHINE_CHECKED)  # their cases are statements
_SHORT_TABLE = 6
_LONG_CASE = 240


def page(ledger: Json, run: Json) -> dict[str, Any]:
    """Everything that the templates need."""
    drawn = figure_files(ledger)
    claims = [_claim(row, ledger, drawn) for row in ledger["claims"]]
    headings = ledger.get("sections", {})
    known = list(dict.fromkeys([*headings, *(c["section"] for c in claims)]))
    sections = [
        {"id": s, "heading": headings.get(s, s.capitalize()), "claims": found}
        for s in known
        if (found := [c for c in claims if c["section"] == s])
    ]
    return {
        "ledger": ledger,
        "title": ledger.get("title") or "What the paper claims, and what was measured",
        "note": ledger.get("note", ""),
        "again": _again(ledger),
        "saying": list(dict.fromkeys(d for c in ledger["conflicts"] for d in c["says"])),
        "sections": sections,
        "known": {c["id"] for c in claims},
        "claims": claims,
        "findings": findings(ledger),
        "problems": [
            {"id": c["id"], "check": e["check"], "problem": e["problem"]}
            for c in claims
            for e in c["evidence"]
            if e["problem"]
        ],
        "verdicts": [
            {"verdict": v, "count": n, "symbol": symbol(v), "group": group(v), "meaning": m}
            for v, n in ledger["summary"]["verdicts"].items()
            for m in (meaning(v),)
        ],
        "legend": [
            {"verdict": v.value, "symbol": symbol(v), "group": group(v), "meaning": v.meaning}
            for v in Verdict
        ],
        "conflicts": _conflicts(ledger),
        "speed": [
            {"where": s["where"], "tables": [t | _rows(t) for t in s["tables"]]}
            for s in ledger.get("speed", [])
        ],
        "tested": tested(ledger.get("implementations")),
        "slowest": run.get("checks", [])[:10],
        "took": _took(run),
        "where": _where(ledger, run),
        "counterexamples": sum(len(c["cards"]) + len(c["more_cards"]) for c in claims),
    }


def _again(ledger: Json) -> str:
    """The command that makes the same ledger."""
    option = _option(ledger)
    profile = f"--profile {ledger['profile']} --seed {ledger['seed']}"
    return f"leanlloyd report{option} {profile}" + (" --out FOLDER" if option else "")


def _option(ledger: Json) -> str:
    packages = ledger.get("packages", [OWN])
    return "" if packages == [OWN] else "".join(f" --claims {name}" for name in packages)


def _conflicts(ledger: Json) -> list[dict[str, Any]]:
    """Source conflicts, with the titles of the claims that look into them."""
    titles = {row["id"]: row["title"] for row in ledger["claims"]}
    return [
        {**c, "claims": [{**k, "title": titles.get(k["id"], k["id"])} for k in c["claims"]]}
        for c in ledger.get("conflicts", [])
    ]


def _took(run: Json) -> str:
    parts = [f"the whole run took {number(run['seconds'])} s"] if run.get("seconds") else []
    if run.get("resumed_checks"):
        parts.append(f"{run['resumed_checks']} checks taken over from an interrupted run")
    return "; " + ", ".join(parts) if parts else ""


def _where(ledger: Json, run: Json) -> list[tuple[str, str]]:
    """Versions, machine and time: whatever `run.json` says besides durations and settings."""
    rows = [("leanlloyd", str(ledger["version"]))]
    told = {"seconds", "profile", "seed", "checks", "resumed_checks", "libraries", "arithmetics"}
    rows += [(name, str(value)) for name, value in run.items() if name not in told]
    libraries = run.get("libraries") or {}
    rows += [(name, version or "not installed") for name, version in libraries.items()]
    for name, settings in (run.get("arithmetics") or {}).items():
        rows.append((name, ", ".join(f"{what}: {value}" for what, value in settings.items())))
    return rows


def figure_files(ledger: Json) -> dict[tuple[str, str, str], tuple[str, bytes]]:
    """File name and content of each figure, by claim, check and table."""
    files: dict[tuple[str, str, str], tuple[str, bytes]] = {}
    taken: set[str] = set()
    for row in ledger["claims"]:
        for e in row["evidence"]:
            for table in filter(figures.drawable, e["tables"]):
                stem, times = f"{row['id']}--{table['name']}", 1
                while stem in taken:
                    times += 1
                    stem = f"{row['id']}--{table['name']}-{times}"
                taken.add(stem)
                key = (row["id"], e["check"], table["name"])
                files[key] = (f"figures/{stem}.svg", figures.svg_file(table))
    return files


def group(verdict: str) -> str:
    """The color group of a verdict, a class name in the style sheet."""
    groups = {
        "good": (Verdict.PROVED, Verdict.CONFIRMED, Verdict.REPRODUCED),
        "better": (Verdict.SHARPENED,),
        "partly": (Verdict.QUALIFIED, Verdict.PARTLY),
        "bad": (Verdict.REFUTED, Verdict.NOT_REPRODUCED),
    }
    return next((name for name, members in groups.items() if verdict in members), "none")


def symbol(verdict: str) -> str:
    return next((s for v, s in SYMBOLS.items() if v == verdict), "○")


def meaning(verdict: str) -> str:
    return next((v.meaning for v in Verdict if v == verdict), "")


def ratio_text(row: Json) -> str:
    """The ratio of a claim for a table cell; where a ratio says nothing, what the two sides do."""
    result = row["result"]
    if result["ratio"] is not None:
        return ratio(result["ratio"])
    if result["measured"] is not None and result["measured"] == result["bound"]:
        return {Kind.EQUALITY: "equal", Kind.IFF: "agree"}.get(row["kind"], "–")
    return "–"


def _claim(
    row: Json, ledger: Json, drawn: Mapping[tuple[str, str, str], tuple[str, bytes]]
) -> dict[str, Any]:
    result = row["result"]
    cards = list(_cards(row))
    own = bool(cards) and not cards[0]["variant"]
    return {
        **row,
        "symbol": symbol(row["verdict"]),
        "group": group(row["verdict"]),
        "meaning": meaning(row["verdict"]),
        "bound_value": number(result["bound"]),
        "measured": number(result["measured"]),
        "ratio": ratio_text(row),
        "gauge": _gauge(row),
        "over": row["counts"]["violated"] > 0 and (decimal(result["ratio"]) or 0) > 1,
        "theory_link": _theory_link(row["theory"]),
        "places": [
            {"document": s["document"], "what": ledger["documents"].get(s["document"], ""), **s}
            for s in row["sources"]
        ],
        "witness": case_line(result["witness"]) if result["witness"] else "",
        "evidence": [_evidence(e, row, drawn) for e in row["evidence"]],
        "cards": cards[:1] if own else [],
        "more_cards": cards[1:] if own else cards,
    }


def _theory_link(theory: str) -> str:
    """Where a derivation is, from the report's folder; "" for what is no file or address."""
    if "://" in theory:
        return theory
    path = theory.partition("#")[0]
    return f"../{theory}" if re.fullmatch(r"[\w./-]+\.\w+", path) else ""


def _gauge(row: Json) -> float | None:
    """How much of an upper bound the worst case fills, in percent; None for other kinds."""
    reached = decimal(row["result"]["ratio"])
    if row["kind"] not in (Kind.UPPER, Kind.TIGHT, Kind.SCALING) or reached is None or reached < 0:
        return None
    return min(float(reached), 1.0) * 100


def _evidence(
    e: Json, row: Json, drawn: Mapping[tuple[str, str, str], tuple[str, bytes]]
) -> dict[str, Any]:
    dropped = [h["name"] for h in row["hypotheses"] if h["name"] not in e["assuming"]]
    unit = "statement" if e["method"] in _STATEMENTS else "case"
    counts = [f"{count(e['cases'])} {unit}{'' if e['cases'] == 1 else 's'}"]
    counts += [
        f"{count(e[name])} {name}" for name in ("violated", "undecided", "excluded") if e[name]
    ]
    facts = [
        ("counts", ", ".join(counts) if e["cases"] or e["excluded"] else ""),
        ("hypothesis dropped", ", ".join(dropped)),
        ("about", e["variant"]),
        ("better bound", e["sharper"]),
        ("arithmetic", e["arithmetic"]),
        ("seed", "" if e["seed"] is None else str(e["seed"])),
    ]
    return {
        **e,
        "sentence": shorten(e["sentence"], 700),
        "facts": [(name, text) for name, text in facts if text],
        "tables": [
            {**t, "figure": drawn.get((row["id"], e["check"], t["name"]))} | _rows(t)
            for t in e["tables"]
        ],
    }


def _rows(table: Json) -> dict[str, Any]:
    shows = [ratio if "ratio" in name.lower() else number for name in table["columns"]]
    rows = [[show(v) for show, v in zip(shows, row, strict=True)] for row in table["rows"]]
    numeric = [
        bool(rows) and all(decimal(row[i]) is not None or row[i] is None for row in table["rows"])
        for i in range(len(table["columns"]))
    ]
    # a table of words is read, not looked up: it is not folded away
    return {
        "cells": rows,
        "numeric": numeric,
        "short": len(rows) <= _SHORT_TABLE or not any(numeric),
    }


def _cards(row: Json) -> Iterator[dict[str, Any]]:
    """Counterexamples: the one that the verdict rests on first, then those of other checks."""
    shown = set()
    main = row["counterexample"]
    if main is not None:
        shown.add((main["id"], main["variant"]))
        yield _card(main, row)
    for e in row["evidence"]:
        if e["counterexample"] is None:
            continue
        number_of = Case.from_json(e["counterexample"]).id
        if (number_of, e["variant"]) in shown:
            continue
        shown.add((number_of, e["variant"]))
        about = {key: e[key] for key in ("check", "assuming", "variant")}
        own = {"id": number_of, "case": e["counterexample"], "script": "", **about}
        yield _card({**(e["card"] or {}), **own}, row)


def _heading(variant: str, dropped: list[str]) -> str:
    if variant:
        return "Counterexample to a variant"
    if dropped:
        return f"Counterexample without the hypothesis “{'”, “'.join(dropped)}”"
    return "Counterexample"


def _card(card: Json, row: Json) -> dict[str, Any]:
    dropped = [h["name"] for h in row["hypotheses"] if h["name"] not in card["assuming"]]
    answers = card.get("answers") or {}
    return {
        **card,
        "heading": _heading(card["variant"], dropped),
        "lines": [
            (typeset(name.replace("_", " ")), exact(value)) for name, value in card["case"].items()
        ],
        "long": len(case_line(card["case"])) > _LONG_CASE,
        "answers": answers,
        "results": [(name, shown(value)) for name, value in answers.items()],
        "measured": shown(card["measured"]) if "measured" in card else "",
        "bound": shown(card["bound"]) if "bound" in card else "",
        "note": card.get("note", ""),
        "script": card.get("script", ""),
        "replay": _replay(card, row),
    }


def _replay(card: Json, row: Json) -> str:
    """How to judge the case of a card again: its row's command, for this case."""
    words = row["replay"].split()
    if words[:2] != ["leanlloyd", "replay"]:
        return ""
    if len(words) == 4:
        return " ".join([*words[:3], card["id"]])
    main = row["counterexample"]
    return row["replay"] if main is not None and main["id"] == card["id"] else ""
