"""The record of the last build of the Coq proofs, and the check that holds claims against it.

A claim names its theorems and, for each, the hash of its *meaning*: the statement as Coq prints it
with every definition of ours that it rests on. So neither a weaker statement nor a changed
definition passes unless the claim changes with it. The evidence is made from `record.json` alone,
and from the hashes of the .v files at hand: it has the same bytes with and without Coq.
`leanlloyd proofs` builds everything and compares.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verify.claim import Claim, Evidence, Method, Run
from verify.table import Table

FOLDER = Path(__file__).resolve().parent
RECORD = FOLDER / "record.json"
ALLOWED_AXIOMS: frozenset[str] = frozenset()
"""Axioms that a theorem may rest on. Everything here is over an ordered field: none."""


class RecordError(ValueError):
    """The record is missing or unreadable."""


def file_hashes(folder: Path = FOLDER) -> dict[str, str]:
    """SHA-256 of every .v file in a folder, by name."""
    files = sorted(folder.glob("*.v"))
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def load(path: Path = RECORD) -> dict[str, Any]:
    """The record; raises `RecordError` with the reason."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(
            f"{path} cannot be read ({error}); `leanlloyd proofs --record` writes it"
        ) from None
    if not isinstance(data, dict) or not {"coq", "files", "theorems"} <= set(data):
        raise RecordError(f"{path} is not a record of proofs; `leanlloyd proofs --record` does it")
    return data


def meaning(statement: str, definitions: Mapping[str, str]) -> str:
    """A hash of a statement and of all our definitions that it rests on, directly or not.

    `definitions` maps names to what Coq prints for them.
    """
    used: dict[str, str] = {}
    todo = [statement]
    while todo:
        for word in re.findall(r"[A-Za-z_][\w']*", todo.pop()):
            if word in definitions and word not in used:
                used[word] = definitions[word]
                todo.append(definitions[word])
    text = "\n".join([statement, *(used[name] for name in sorted(used))])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class MachineChecked:
    """Evidence from the proof assistant: theorems of `verify/proofs`, by name, each with the hash
    of its meaning (`leanlloyd proofs` prints them).

    `decides_all` says that the theorems together state the whole claim. `assuming` and `variant`
    are as in the other checks.
    """

    name: str
    theorems: Mapping[str, str]
    scope: str
    decides_all: bool = False
    variant: str = ""
    assuming: tuple[str, ...] | None = None
    folder: Path = FOLDER

    method = Method.MACHINE_CHECKED

    def run(self, claim: Claim, run: Run) -> Evidence:
        e = Evidence(self.name, self.method, scope=self.scope, variant=self.variant)
        e.assuming = claim.needed if self.assuming is None else self.assuming
        try:
            record = load(self.folder / RECORD.name)
        except RecordError as error:
            e.problem = str(error)
            return e
        e.arithmetic = f"Coq {record['coq']}, MathComp {record['mathcomp']}"
        faults = [self._fault(name, record) for name in self.theorems]
        if record["files"] != file_hashes(self.folder):
            faults = ["the .v files are not those of the record; `leanlloyd proofs` builds them"]
        e.problem = "; ".join(f for f in faults if f)
        if e.problem:
            return e
        e.cases, e.decides_all = len(self.theorems), self.decides_all
        rows = []
        for name in self.theorems:
            found = record["theorems"][name]
            place = f"verify/proofs/{found['file']}:{found['line']}"
            rows.append([name, place, found["statement"], ", ".join(found["axioms"]) or "none"])
        e.note = "recorded: Coq accepted " + ", ".join(f"{row[0]} ({row[1]})" for row in rows)
        e.tables.append(
            Table(
                self.name,
                "The statements as Coq prints them. Trusted: its kernel, and that the definitions "
                "say what the paper means",
                ("theorem", "place", "statement", "axioms"),
                rows,
            )
        )
        return e

    def _fault(self, name: str, record: Mapping[str, Any]) -> str:
        found = record["theorems"].get(name)
        if found is None:
            return f"the record has no theorem {name}"
        foreign = sorted(set(found["axioms"]) - ALLOWED_AXIOMS)
        if foreign:
            return f"{name} rests on {', '.join(foreign)}, which is not proved"
        if found["meaning"] != self.theorems[name]:
            return (
                f"{name} no longer states what the claim says it does (meaning "
                f"{found['meaning']}, the claim has {self.theorems[name]}); read both, then "
                "change the claim"
            )
        return ""
