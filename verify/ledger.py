"""The ledger: what a run found, as data. Everything readable is made from it.

`ledger.json` has the same bytes for the same sources, profile and seed. What changes from run to
run (time, host, versions, durations) is in `run.json`.
"""

from __future__ import annotations

import inspect
import json
import math
import platform
import shlex
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from verify import __version__, claims, handed
from verify.bench.recorded import kept
from verify.claim import Case, Claim, Evidence, Kind, Run, Verdict, to_json, verdict_of
from verify.collection import OWN, About, Collection
from verify.conformance.recorded import recorded
from verify.runner import Done, fingerprint
from verify.search import describe

SCHEMA_VERSION = 1
_LONGEST_CASE = 2000
LIBRARIES = (
    "torch",
    "numpy",
    "scipy",
    "sympy",
    "python-flint",
    "z3-solver",
    "hypothesis",
    "scikit-learn",
    "array-api-compat",
    "array-api-strict",
)


class LedgerError(ValueError):
    """A ledger file is missing, unreadable, or of another version."""


def build(
    results: Iterable[Done], run: Run, collection: Collection | None = None
) -> dict[str, Any]:
    """The ledger of a run, over the project's own claims or another collection.

    Claims stand in the order of the report, evidence in that of checks."""
    known = collection or claims.collection()
    found: dict[str, dict[str, Evidence]] = defaultdict(dict)
    for done in results:
        found[done.claim_id][done.evidence.check] = done.evidence
    rows = [
        _row(
            claim,
            [found[claim.id][c.name] for c in claim.checks if c.name in found[claim.id]],
            known,
        )
        for claim in known.all_claims()
        if claim.id in found
    ]
    return {
        "schema": SCHEMA_VERSION,
        "project": "leanlloyd",
        "version": __version__,
        "packages": list(known.names),
        "paper": known.about.paper,
        "title": known.about.title,
        "note": known.about.note,
        "documents": dict(known.about.documents),
        "sections": dict(known.about.sections),
        "profile": run.profile.name,
        "seed": run.seed,
        "summary": _summary(rows),
        "claims": rows,
        "conflicts": _conflicts(rows, known.about),
        "speed": kept() if OWN in known.names else [],
        "implementations": recorded() if OWN in known.names else None,
    }


def volatile(results: Iterable[Done], run: Run, seconds: float) -> dict[str, Any]:
    """What `run.json` holds: time, host, versions, what applied to each arithmetic (device,
    threads, reduced precision, or why it did not run), and how long each check took."""
    results = list(results)
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 2),
        "profile": run.profile.name,
        "seed": run.seed,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "arithmetics": {name: told for d in results for name, told in d.settings.items()},
        "checks": sorted(
            (
                {"claim": d.claim_id, "check": d.evidence.check, "seconds": round(d.seconds, 2)}
                for d in results
            ),
            key=lambda row: (-row["seconds"], row["claim"], row["check"]),
        ),
    }


def dumps(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def load(path: Path) -> dict[str, Any]:
    """Read a ledger; raises `LedgerError` with the path and the reason."""
    try:
        data = handed.read(path)
    except FileNotFoundError:
        raise LedgerError(f"{path}: no ledger there; `leanlloyd report` writes one") from None
    except (OSError, ValueError) as error:
        raise LedgerError(f"{path}: cannot be read as a ledger: {error}") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA_VERSION:
        raise LedgerError(f"{path}: not a leanlloyd ledger of schema {SCHEMA_VERSION}")
    return data


def reference_path() -> Path:
    """The committed ledger of our own claims: beside the checkout, else inside the package."""
    known = claims.collection()
    return known.reference_path or known.references[0][-1]


def reference(collection: Collection) -> dict[str, Any] | None:
    """The committed ledger of a collection, or None; of several packages, the rows of them all.

    Raises `LedgerError` when a ledger is there and cannot be read.
    """
    found = [load(path) for path in collection.reference_paths]
    if len(found) < 2:
        return found[0] if found else None
    return {**found[0], "claims": [row for data in found for row in data["claims"]]}


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Sentences about claims whose verdict differs between two ledgers."""
    before = {row["id"]: row["verdict"] for row in old["claims"]}
    return [
        f"{row['id']}: the verdict was '{before[row['id']]}', now it is '{row['verdict']}'"
        for row in new["claims"]
        if row["id"] in before and before[row["id"]] != row["verdict"]
    ]


def problems(ledger: dict[str, Any]) -> list[str]:
    """Sentences about checks that failed to do their job."""
    return [
        f"{row['id']}, check {e['check']}: {e['problem']}"
        for row in ledger["claims"]
        for e in row["evidence"]
        if e["problem"]
    ]


def refuted(ledger: dict[str, Any], reference: dict[str, Any] | None) -> list[str]:
    """Sentences about claims that are false and of which a reference knows nothing."""
    known = {row["id"] for row in reference["claims"]} if reference else set()
    return [
        f"{row['id']}: {row['verdict']}"
        for row in ledger["claims"]
        if row["id"] not in known and row["verdict"] in (Verdict.REFUTED, Verdict.NOT_REPRODUCED)
    ]


def stale(ledger: dict[str, Any], collection: Collection | None = None) -> list[str]:
    """Ids of claims whose evidence was made by other sources than those at hand."""
    known = collection or claims.collection()
    return [
        row["id"]
        for row in ledger["claims"]
        if row["id"] not in known.entries
        or row["fingerprint"] != fingerprint(row["id"], collection)
    ]


def find_case(ledger: dict[str, Any], claim_id: str, case_id: str) -> Case | None:
    """The witness or counterexample with this id (or a beginning of it)."""
    for row in ledger["claims"]:
        if row["id"] == claim_id:
            for e in row["evidence"]:
                for name in ("witness", "counterexample"):
                    if e[name] is not None:
                        case = Case.from_json(e[name])
                        if case.id.startswith(case_id):
                            return case
    return None


def script_for(claim: Claim, case: Case) -> str:
    """A program that shows a counterexample with Python's standard library alone."""
    if claim.script is None:
        return ""
    arguments = claim.script.arguments(case)
    source = inspect.getsource(import_module(f"verify.oracles.{claim.script.module}"))
    body = source[source.index("from fractions") :].rstrip()
    lines = [
        f'"""{claim.id}, case {case.id}: run with any Python 3.10 or later."""',
        "",
        body,
        "",
        "",
    ]
    lines += [
        "def exact(value):",
        "    if isinstance(value, list):",
        "        return [exact(v) for v in value]",
        "    return Fraction(value) if isinstance(value, str) else value",
        "",
        "",
    ]
    lines += ["main("]
    lines += [f"    {name}=exact({to_json(value)!r})," for name, value in arguments.items()]
    return "\n".join([*lines, ")", ""])


def _row(claim: Claim, evidence: list[Evidence], known: Collection) -> dict[str, Any]:
    verdict = verdict_of(claim, evidence)
    headline = _headline(claim, evidence)
    shown = next((e for e in evidence if e.counterexample is not None and not e.variant), None)
    shown = shown or next((e for e in evidence if e.counterexample is not None), None)
    return {
        "id": claim.id,
        "section": known.section_of(claim.id),
        "title": claim.title,
        "says": claim.says,
        "statement": claim.statement,
        "hypotheses": [
            {"name": h.name, "says": h.says, "extra": h.extra} for h in claim.hypotheses
        ],
        "sources": [{"document": s.document, "place": s.place} for s in claim.sources],
        "kind": claim.kind,
        "verdict": verdict,
        "bound": claim.bound,
        "result": {
            "check": headline.check if headline else None,
            "bound": to_json(headline.bound) if headline else None,
            "measured": to_json(headline.measured) if headline else None,
            "ratio": to_json(headline.ratio) if headline else None,
            "witness": to_json(headline.witness) if headline else None,
            "witness_id": headline.witness.id if headline and headline.witness else None,
        },
        "counts": {
            name: sum(getattr(e, name) for e in evidence)
            for name in ("cases", "violated", "undecided", "excluded")
        },
        "evidence": [e.to_json() | {"sentence": describe(e)} for e in evidence],
        "counterexample": _counterexample(claim, shown),
        "falsify": claim.falsify,
        "theory": claim.theory and known.entries[claim.id].theory + claim.theory,
        "conflict": claim.conflict,
        "replay": _replay(claim, headline, shown, known),
        "fingerprint": fingerprint(claim.id, known),
    }


def _headline(claim: Claim, evidence: list[Evidence]) -> Evidence | None:
    """The evidence whose worst case stands for the claim: under all hypotheses, nearest to the
    bound; for a refuted claim the violation itself."""
    usable = [e for e in evidence if e.measured is not None and not e.variant]
    full = [e for e in usable if set(e.assuming) == set(claim.needed)]
    pool = full or usable or [e for e in evidence if e.measured is not None]
    if not pool:
        return None
    downward = claim.kind in (Kind.LOWER, Kind.TREND, Kind.LIMITATION)

    def nearness(e: Evidence) -> tuple[float, bool]:
        if e.ratio is None:
            return -math.inf, e.violated > 0
        return (-float(e.ratio) if downward else float(e.ratio)), e.violated > 0

    return max(pool, key=nearness)


def _counterexample(claim: Claim, e: Evidence | None) -> dict[str, Any] | None:
    if e is None or e.counterexample is None:
        return None
    case = e.counterexample
    return {
        "id": case.id,
        "case": case.to_json(),
        "check": e.check,
        "assuming": list(e.assuming),
        "variant": e.variant,
        **to_json(e.card),
        "script": script_for(claim, case),
    }


def replay_command(claim: Claim, case: Case, known: Collection, by_id: bool = False) -> str:
    """A command that judges the case again, to be copied as it is; "" if the claim is not about
    cases. With `by_id` it looks the case up in the reference ledger; a case too long for a line
    it takes from a ledger written on the way."""
    if claim.measure is None:
        return ""
    start = f"leanlloyd replay{known.option} {claim.id}"
    if by_id:
        return f"{start} {case.id}"
    text = json.dumps(case.to_json(), ensure_ascii=False)
    if len(text) <= _LONGEST_CASE:
        return f"{start} {shlex.quote(text)}"
    return (
        f"leanlloyd check{known.option} {claim.id} --json > {claim.id}.json; "
        f"{start} {case.id} --ledger {claim.id}.json"
    )


def _replay(
    claim: Claim, headline: Evidence | None, shown: Evidence | None, known: Collection
) -> str:
    for e in (shown, headline):
        case = e and (e.counterexample or e.witness)
        if case and claim.measure is not None:
            return replay_command(claim, case, known, by_id=known.own)
    return f"leanlloyd check{known.option} {claim.id}"


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    verdicts = Counter(row["verdict"] for row in rows)
    return {
        "claims": len(rows),
        "verdicts": {v.value: verdicts[v] for v in Verdict if verdicts[v]},
        "cases": sum(row["counts"]["cases"] for row in rows),
        "undecided": sum(row["counts"]["undecided"] for row in rows),
    }


def _conflicts(rows: list[dict[str, Any]], about: About) -> list[dict[str, Any]]:
    verdicts = {row["id"]: row["verdict"] for row in rows}
    return [
        {
            "topic": c.topic,
            "says": dict(c.says),
            "claims": [{"id": i, "verdict": verdicts.get(i)} for i in c.claims],
            "found": [
                text for row in rows if row["id"] in c.claims for text in _sided(row, c.says)
            ],
        }
        for c in about.conflicts
    ]


def _sided(row: dict[str, Any], documents: Container[str]) -> list[str]:
    """Which document is right, where a claim has a check named after each: statement by statement,
    as it came out at the scale that counts."""
    answers: dict[str, dict[str, Any]] = defaultdict(dict)
    for e in row["evidence"]:
        if e["check"] in documents and e["cases"]:
            for says, scale, middle, low, high, *_, answer in e["tables"][0]["rows"]:
                if middle is not None and "," not in scale:
                    answers[f"{says}: {middle} ({low} to {high}), {scale} scale"][e["check"]] = (
                        answer
                    )
    return [
        f"{what}: {' and '.join(f'the {d} is right' for d, a in each.items() if a == 'holds')}"
        if "holds" in each.values()
        else f"{what}: undecided between them"
        for what, each in answers.items()
    ]


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
