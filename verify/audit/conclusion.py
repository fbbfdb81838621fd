"""The findings in sentences, most important first. Reads the dictionary of `report.audit`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any


def conclusions(found: dict[str, Any]) -> list[str]:
    """What the user should know, one sentence or two an entry."""
    said = [_exactness(track, found) for track in found["exact"]["codes"]]
    said += _finite(found)
    said += _temperature(found)
    said += _floats(found)
    if found["data"]["scale"] == "per-dimension":
        said.append(
            "The data were scaled per dimension, which makes it another k-means problem; only a "
            "common scale keeps the problem."
        )
    return said


def reason_text(reason: dict[str, Any]) -> str:
    """One reason for parting, as a sentence or two."""
    centers = listed("center", reason["centers"])
    if reason["kind"] in ("empty", "all_tied"):
        equal = reason["equal_to"]
        why = f" (it equals {listed('center', equal)})" if equal else ""
        what = (
            f"No point is assigned to center {reason['lloyd']}{why}, so Lloyd's step leaves it "
            "where it is."
            if reason["kind"] == "empty"
            else f"All points of center {reason['lloyd']}{why} are tied, so none carries its code."
        )
        return (
            f"{what} The transformer moves it to the mean of the points whose code is "
            f"nearest to its own: {counted(reason['count'], 'point')} of {centers}."
        )
    points = examples("point", reason["points"], reason["count"])
    several = reason["count"] > 1
    are, it = ("are", "them") if several else ("is", "it")
    if reason["read_by"] == reason["centers"]:
        reads = "all of these centers read"
    elif reason["read_by"]:
        reads = f"{listed('center', reason['read_by'])} read" + (
            "s" if len(reason["read_by"]) == 1 else ""
        )
    else:
        reads = "no center reads"
    why = f"{are} equally near to {centers}"
    if reason["kind"] == "duplicate":
        why = f"{are} tied because {centers} are equal"
    return (
        f"{points} {why}. Lloyd assigns {it} to center {reason['lloyd']}, the lowest index; in the "
        f"transformer {'they carry' if several else 'it carries'} the mean of their codes, which "
        f"{reads}."
    )


def examples(noun: str, first: list[int], count: int) -> str:
    """ "Points 3, 17, 20 and 8 more"; at most five are named."""
    shown = first[:5]
    if count == 1:
        return f"{noun.capitalize()} {shown[0]}"
    more = count - len(shown)
    if not more:
        return f"{noun.capitalize()}s {', '.join(map(str, shown[:-1]))} and {shown[-1]}"
    return f"{noun.capitalize()}s {', '.join(map(str, shown))} and {more} more"


def listed(noun: str, items: list[int]) -> str:
    """ "center 2", "centers 2 and 5", "centers 1, 2 and 5"."""
    if len(items) == 1:
        return f"{noun} {items[0]}"
    return f"{noun}s {', '.join(map(str, items[:-1]))} and {items[-1]}"


def short(value: Any, digits: int = 3) -> str:
    """A number for people; infinity stands where nothing limits a quantity."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return "any" if value == "infinity" else value
    if 1000 <= abs(value) < 1e6 and digits < 6:
        return f"{float(f'{value:.{digits}g}'):.0f}"
    return _plain(f"{value:.{digits}g}")


def _plain(text: str) -> str:
    """1e+06 as 1e6."""
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def short_exact(cell: dict[str, Any]) -> str:
    """An exact number, also when it is beyond float64."""
    if cell["value"] != "beyond float64":
        return short(cell["value"], 4)
    top, _, bottom = cell["exact"].partition("/")
    return _plain(f"{Decimal(top) / Decimal(bottom or 1):.3e}")


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _exactness(track: dict[str, Any], found: dict[str, Any]) -> str:
    steps, name = found["data"]["steps"], track["code"]
    width = f"{name} code (token width {track['d_emb']})"
    if track["equal"]:
        text = (
            f"Exact: with the {width}, the transformer equals Lloyd's algorithm in all "
            f"{counted(steps, 'step')}, number for number, in rational arithmetic."
            if steps > 1
            else f"Exact: with the {width}, the transformer equals one Lloyd step, number for "
            "number, in rational arithmetic."
        )
        harmless = track["ties_or_empty_clusters_without_effect"]
        if harmless:
            text += (
                f" (A tie or an empty cluster in {listed('step', harmless)} made no difference.)"
            )
        fixed = next((s["step"] for s in found["exact"]["steps"] if s["fixed_point"]), None)
        if fixed is not None:
            text += f" Step {fixed} moves nothing: Lloyd's algorithm has converged."
        return text
    causes = {
        "tie": "points are equally near to several centers",
        "duplicate": "centers are equal",
        "empty": "a cluster is empty",
    }
    present = {r["kind"] for r in track["reasons"]}
    present |= {"duplicate" for r in track["reasons"] if r.get("equal_to")}
    kinds = [causes[kind] for kind in causes if kind in present]
    count = track["differing_count"]
    text = (
        f"Not equal: with the {width}, transformer and Lloyd part in step "
        f"{track['parts_at_step']}, where {count} of {counted(found['data']['k'], 'center')} "
        f"{'differ' if count > 1 else 'differs'}, because {' and '.join(kinds)}. "
    )
    away = track["final_distance"]
    if away == 0:
        return text + f"After step {steps} they have met again."
    return text + f"After step {steps} a center is {short(away)} away from Lloyd's."


def _finite(found: dict[str, Any]) -> list[str]:
    section, data = found["finite"], found["data"]
    asked = {t["code"] for t in found["exact"]["codes"]}
    rows = [r for r in section["codes"] if isinstance(r["gamma_star"], float)]
    without = section["steps_without"]
    lacking = "; ".join(lacking_steps(section))
    if data["k"] == 1:
        return []
    if not section["steps_certified"]:
        return [f"Finite inverse temperature: no certificate for {lacking}."]
    said = []
    for row in rows:
        if row["code"] not in asked:
            continue
        text = (
            f"Finite inverse temperature: with the {row['code']} code, gamma >= "
            f"{short(row['gamma_star'])} keeps every center within {short(section['epsilon'])} of "
            "Lloyd's, in a step from exact centers."
        )
        kinds = [_float_sentence(kind, row) for kind in ("float64", "float32")]
        said.append(f"{text} {' '.join(kinds)}".strip())
    if not said:
        said.append("Finite inverse temperature: none that float64 can hold is certified.")
    least = min(rows, key=lambda r: r["gamma_star"], default=None)
    if least and least["code"] not in asked:
        said[-1] += f" The {least['code']} code needs least: {short(least['gamma_star'])}."
    if without:
        said.append(f"Finite inverse temperature: no certificate for {lacking}.")
    return said


def lacking_steps(section: dict[str, Any]) -> list[str]:
    """Steps without a certificate, grouped by the reason."""
    reasons: dict[str, list[int]] = {}
    for without in section["steps_without"]:
        reasons.setdefault(without["reason"], []).append(without["step"])
    return [f"{listed('step', steps)} ({reason})" for reason, steps in reasons.items()]


def _float_sentence(kind: str, row: dict[str, Any]) -> str:
    cell = row[kind]
    sure = (
        f"{kind} is sure to keep to that at gamma = {short(cell['certified_at'])}"
        if isinstance(cell["certified_at"], float)
        else f"{kind} has no guarantee"
    )
    if isinstance(cell["measured"], float):
        sure += f" (run at {short(row['at_gamma'])}: off by {short(cell['measured'], 2)})"
    return sure + "."


def _temperature(found: dict[str, Any]) -> list[str]:
    final = found["temperature"]["final"]
    if found["data"]["k"] == 1:
        return ["Temperature: with one center every regularized loss is the k-means loss."]
    steps = counted(found["data"]["steps"], "step")
    text = f"Temperature: after {steps}, the L2 loss equals the k-means loss {tau_star(final)}"
    first = [s for s in final["safe"] if s["relative"] == 0.01 and s["tau"] is not None]
    if not first:
        return [text + "."]
    taus = ", ".join(f"{short(s['tau'])} ({s['regularizer']})" for s in first)
    if all(s["tau"] == "infinity" for s in first):
        return [f"{text}; the gap is below 1 % of the loss for every tau."]
    return [f"{text}; the gap stays below 1 % of the loss up to tau = {taus}."]


def tau_star(part: dict[str, Any]) -> str:
    """Up to where the L2 gap is zero, in words."""
    value = part["tau_star"]["value"]
    if value == "infinity":
        return "for every tau"
    return f"up to tau* = {short_exact(part['tau_star'])}"


def _floats(found: dict[str, Any]) -> list[str]:
    said = []
    for kind in ("float32", "float64"):
        steps = [(s["step"], s[kind]) for s in found["exact"]["steps"]]
        problem = next(((n, s["problem"]) for n, s in steps if s["problem"]), None)
        if problem:
            said.append(f"{kind} cannot be used (step {problem[0]}): {problem[1]}.")
            continue
        worst = max(steps, key=lambda s: s[1]["undecided"])
        if worst[1]["undecided"]:
            count = worst[1]["undecided"]
            named = ", ".join(map(str, worst[1]["first_undecided"][:5]))
            wrong = worst[1]["wrong"]
            said.append(
                f"Warning: {kind} cannot decide the assignment of {counted(count, 'point')} in "
                f"step {worst[0]} (first: {named}): the margin is below the rounding bound. "
                + (f"When it was run, {wrong or 'none'} came out wrong.")
            )
    if not said:
        said.append("float32 and float64 decide every assignment that is not an exact tie.")
    elif not any(s.startswith(("Warning: float64", "float64")) for s in said):
        said[-1] += " float64 decides all."
    return said
