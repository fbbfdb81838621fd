"""The findings on the first screen: one plain sentence a claim, made from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verify.claim import Kind, Verdict
from verify.report.text import case_line, decimal, number, ratio, sentence, shorten, shown

INTERESTING = (
    Verdict.REFUTED,
    Verdict.QUALIFIED,
    Verdict.SHARPENED,
    Verdict.NOT_REPRODUCED,
    Verdict.PARTLY,
)
"""Verdicts that make a finding, in the order of the first screen."""

_LONG = 110


@dataclass(frozen=True)
class Finding:
    claim_id: str
    title: str
    verdict: str
    says: str


def findings(ledger: Mapping[str, Any]) -> list[Finding]:
    """What a reader would want to hear first: refuted, qualified, sharpened, not reproduced."""
    rows = [row for verdict in INTERESTING for row in ledger["claims"] if row["verdict"] == verdict]
    return [Finding(row["id"], row["title"], row["verdict"], _says(row)) for row in rows]


def _says(row: Mapping[str, Any]) -> str:
    parts = {
        Verdict.REFUTED: _refuted,
        Verdict.QUALIFIED: _qualified,
        Verdict.SHARPENED: _sharpened,
    }.get(row["verdict"], _experiment)(row)
    return " ".join(sentence(part) for part in parts if part)


def _refuted(row: Mapping[str, Any]) -> list[str]:
    return [shorten(row["says"], 200), "Counterexample: " + _shows(row["counterexample"])]


def _qualified(row: Mapping[str, Any]) -> list[str]:
    extra = [h["name"] for h in row["hypotheses"] if h["extra"]]
    what = "a hypothesis" if len(extra) == 1 else "hypotheses"
    return [
        f"True only under {what} that the paper does not state: {', '.join(extra)}",
        f"Without {'it' if len(extra) == 1 else 'them'}, " + _shows(row["counterexample"]),
    ]


def _sharpened(row: Mapping[str, Any]) -> list[str]:
    better = [e["sharper"] for e in row["evidence"] if e["sharper"] and not e["violated"]]
    reached = decimal(row["result"]["ratio"])
    parts = ["True, and a better bound is shown: " + "; ".join(dict.fromkeys(better))]
    if row["kind"] in (Kind.UPPER, Kind.TIGHT, Kind.SCALING) and reached and 0 < reached <= 1:
        share = "" if reached == 1 else f"{ratio(row['result']['ratio'])} of "
        parts.append(f"The worst case found reaches {share}the stated bound")
    return parts


def _experiment(row: Mapping[str, Any]) -> list[str]:
    notes = [e["note"] or e["sentence"] for e in row["evidence"] if not e["variant"]]
    return [shorten(row["says"], 200), shorten(next(iter(notes), ""), 240)]


def _shows(card: Mapping[str, Any] | None) -> str:
    """What a counterexample shows, in one line."""
    if card is None:
        return "the evidence below speaks against it"
    line = case_line(card["case"])
    where = line if len(line) <= _LONG else f"case {card['id']}"
    note = card.get("note") or ""
    why = f"; {note}" if 0 < len(note) <= _LONG else ""
    return f"{where}: {_results(card)}{why}"


def _results(card: Mapping[str, Any]) -> str:
    named = [(n, shown(v)) for n, v in (card.get("answers") or {}).items()][:2]
    if len({text for _, text in named}) == 2 and all(len(text) <= 60 for _, text in named):
        return ", ".join(f"{name} {text}" for name, text in named)
    return f"measured {number(card.get('measured'))}, bound {number(card.get('bound'))}"
