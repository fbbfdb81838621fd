"""Compiles the proofs with `coqc` and asks Coq what was proved, and from what."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verify.proofs.record import FOLDER, file_hashes, meaning

LIBRARY = "LeanLloyd"
_QUIET = ("-w", "none", "-R", ".", LIBRARY)


class BuildError(RuntimeError):
    """Coq refused a file. The message is its own."""


def available() -> bool:
    """Whether `coqc` is there."""
    return shutil.which("coqc") is not None


def build(folder: Path = FOLDER) -> dict[str, Any]:
    """What `record.json` holds, from a build of the .v files in a folder.

    Builds in a copy, so that the folder stays as it is.

    Raises
    ------
    BuildError
        a file does not compile, or Coq or MathComp is missing.
    """
    with tempfile.TemporaryDirectory(prefix="leanlloyd-proofs-") as temporary:
        place = Path(temporary)
        for file in folder.glob("*.v"):
            shutil.copy(file, place)
        for file in _in_order(place):
            _coqc(place, file.name)
        return _ask(place) | {"files": file_hashes(folder)}


def differences(record: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Sentences on what a build found and the record does not have, or the other way round.

    The versions are told, not compared: another release of Coq that accepts the same statements
    is no difference.
    """
    sentences = []
    if record["files"] != found["files"]:
        sentences.append("the .v files are not those of the record")
    old, new = record["theorems"], found["theorems"]
    sentences += [f"theorem {name} is only in the record" for name in old if name not in new]
    sentences += [f"theorem {name} is not in the record" for name in new if name not in old]
    sentences += [
        f"theorem {name}: {part} is {new[name][part]!r}, in the record {old[name][part]!r}"
        for name in new
        if name in old
        for part in ("meaning", "axioms")
        if new[name][part] != old[name][part]
    ]
    return sentences


def _in_order(place: Path) -> list[Path]:
    """The files, each after those that it requires."""
    files = {f.stem: f for f in sorted(place.glob("*.v"))}
    needs = {
        name: {
            word
            for line in re.findall(rf"From {LIBRARY} Require Import (.*?)\.", file.read_text())
            for word in line.split()
        }
        for name, file in files.items()
    }
    order: list[str] = []
    while len(order) < len(files):
        ready = [n for n in files if n not in order and needs[n] <= set(order)]
        if not ready:
            raise BuildError(f"files require one another in a circle, or one is missing: {needs}")
        order += ready
    return [files[name] for name in order]


def _coqc(place: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["coqc", *_QUIET, *arguments], cwd=place, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(" ".join((done.stderr or done.stdout).split()))
    return done.stdout


def _ask(place: Path) -> dict[str, Any]:
    """The printed definitions; each theorem with its statement and what it rests on."""
    files = _in_order(place)
    definitions, theorems = {}, {}
    for file in files:
        text = file.read_text(encoding="utf-8")
        for name in re.findall(r"^Definition (\w+)", text, re.MULTILINE):
            definitions[name] = file.stem
        for found in re.finditer(r"^Theorem (\w+)", text, re.MULTILINE):
            theorems[found[1]] = (file, text.count("\n", 0, found.start()) + 1)
    lines = [
        "From mathcomp Require Import all_ssreflect all_algebra.",
        *(f"From {LIBRARY} Require Import {file.stem}." for file in files),
        "Set Printing Width 100000.",
    ]
    commands = [f"Print {module}.{name}." for name, module in definitions.items()]
    for name, (file, _) in theorems.items():
        commands += [f"Check @{file.stem}.{name}.", f"Print Assumptions {file.stem}.{name}."]
    for command in commands:
        lines += [f'Goal True. idtac "@@ {command}". Abort.', command]
    (place / "query_all.v").write_text("\n".join(lines) + "\n", encoding="utf-8")
    parts = re.split(r"^@@ (.*)$", _coqc(place, "query_all.v"), flags=re.MULTILINE)
    answers = {command: " ".join(text.split()) for command, text in _pairs(parts[1:])}
    printed = {
        name: answers[f"Print {module}.{name}."].partition("Arguments ")[0].strip()
        for name, module in definitions.items()
    }
    found_theorems = {}
    for name, (file, line) in theorems.items():
        statement = answers[f"Check @{file.stem}.{name}."].partition(" : ")[2]
        rests_on = answers[f"Print Assumptions {file.stem}.{name}."]
        found_theorems[name] = {
            "file": file.name,
            "line": line,
            "statement": statement,
            "meaning": meaning(statement, printed),
            "axioms": re.findall(r"([\w.']+) :", rests_on) if "Axioms:" in rests_on else [],
        }
    return {"coq": _version(), "mathcomp": _mathcomp(), "theorems": found_theorems}


def _pairs(parts: list[str]) -> Iterator[tuple[str, str]]:
    return zip(parts[::2], parts[1::2], strict=True)


def _version() -> str:
    done = subprocess.run(["coqc", "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"version (\S+)", done.stdout)
    return found[1] if found else "unknown"


def _mathcomp() -> str:
    """MathComp says nothing of its version to Coq; Debian's packages do."""
    if shutil.which("dpkg-query") is None:
        return "of unknown version"
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", "libcoq-mathcomp-algebra"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.partition("-")[0] or "of unknown version"
