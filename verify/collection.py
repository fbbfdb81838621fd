"""Collections of claims: the claims of one paper, brought by a package from anywhere.

A module of the package defines `CLAIM`, or `CLAIMS`, a list of several. The package itself defines
`ABOUT`. Its folders are the sections of the report; a package without folders is one section.
leanlloyd's own claims, in `verify.claims`, are the first collection, and nothing else is special
about them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from verify.claim import Claim

OWN = "leanlloyd"
"""The name of the project's own claims."""

GROUP = "leanlloyd.claims"
"""The entry points by which an installed package says where its claims are."""

_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")
_CHECK = re.compile(r"[^/\\\0]+\Z")


class CollectionError(ValueError):
    """A package is not there, cannot be imported, or its claims are not in order."""


class UnknownClaimError(ValueError):
    """No claim of that name. The message lists near ones."""


@dataclass(frozen=True)
class Conflict:
    """Documents that say different things.

    Attributes
    ----------
    topic : what it is about
    says : what each document says, by its name
    claims : ids of the claims that look into it; the report shows their verdicts
    """

    topic: str
    says: Mapping[str, str]
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class About:
    """What a package says about its claims as a whole, as `ABOUT`.

    Attributes
    ----------
    paper : citation of the paper that the claims are from
    title : heading of the report
    note : what a reader of the report has to know besides, in one sentence, or ""
    documents : what the names in `Source.document` stand for
    sections : heading by folder name, in the order of the report; others follow by name
    conflicts : where the documents contradict each other
    theory : folder or address before each `Claim.theory`
    reference : places of the committed ledger, relative to the package's folder; the first that
        is there counts
    sources : further packages whose source text the evidence depends on, such as the library that
        the claims are about; a change there makes the evidence stale
    """

    paper: str = ""
    title: str = "What was claimed, and what was measured"
    note: str = ""
    documents: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    theory: str = ""
    reference: tuple[str, ...] = ("ledger.json",)
    sources: tuple[str, ...] = ()


class Entry(NamedTuple):
    """A claim, its section, the module that defines it, and the prefix of its `theory`."""

    section: str
    claim: Claim
    module: ModuleType
    theory: str = ""


@dataclass(frozen=True)
class Collection:
    """The claims of one package, or of several.

    Attributes
    ----------
    names : as they are given to `load`
    about : what the report says about all of them
    entries : by claim id, in the order of the report
    references : places where a committed ledger may stand, by package: the first one counts
    roots : the folder that holds a package, by the package's name: its source text counts
    """

    names: tuple[str, ...]
    about: About
    entries: Mapping[str, Entry]
    references: tuple[tuple[Path, ...], ...] = ()
    roots: Mapping[str, Path] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        """A worker process loads the packages again: claims hold functions of any kind."""
        return load, self.names

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def own(self) -> bool:
        """Whether these are the claims of leanlloyd, and no others."""
        return self.names == (OWN,)

    @property
    def option(self) -> str:
        """What a command line needs to mean these claims: " --claims NAME", or ""."""
        return "" if self.own else "".join(f" --claims {name}" for name in self.names)

    @property
    def reference_path(self) -> Path | None:
        """The committed ledger of a single package, or None."""
        found = self.reference_paths
        return found[0] if found else None

    @property
    def reference_paths(self) -> list[Path]:
        """The committed ledgers that are there, at most one a package."""
        firsts = (next((p for p in places if p.exists()), None) for places in self.references)
        return [path for path in firsts if path is not None]

    def all_claims(self) -> list[Claim]:
        return [entry.claim for entry in self.entries.values()]

    def get(self, claim_id: str) -> Claim:
        """The claim with this id; raises `UnknownClaimError`."""
        try:
            return self.entries[claim_id].claim
        except KeyError:
            near = get_close_matches(claim_id, self.entries, 3, 0.4)
            hint = f"; did you mean {', '.join(near)}?" if near else ";"
            raise UnknownClaimError(
                f"unknown claim {claim_id!r}{hint} `leanlloyd list{self.option}` shows all"
            ) from None

    def section_of(self, claim_id: str) -> str:
        return self.entries[claim_id].section


def installed() -> dict[str, str]:
    """Names of collections and their packages: our own, and those of installed packages."""
    points = sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name)
    return {OWN: "verify.claims"} | {p.name: p.value for p in points if p.name != OWN}


@cache
def load(*names: str) -> Collection:
    """The claims of the packages with these names, in that order.

    Parameters
    ----------
    names : "leanlloyd", the name of an entry point of the group `leanlloyd.claims`, or the import
        name of a package; one in the working directory is found as well

    Raises
    ------
    CollectionError
        in one line: which package or module, what is wrong, what to do.
    """
    parts = [_load_one(name) for name in dict.fromkeys(names)]
    return parts[0] if len(parts) == 1 else _joined(parts)


def _load_one(name: str) -> Collection:
    package = _import_package(name)
    about = getattr(package, "ABOUT", About())
    if not isinstance(about, About):
        raise CollectionError(
            f"{package.__name__}.ABOUT is of type {type(about).__name__}; it must be an "
            "verify.collection.About"
        )
    entries: dict[str, Entry] = {}
    looked = []
    for section, module in _modules(package, about):
        looked.append(module.__name__)
        for claim in _claims_of(module):
            if claim.id in entries:
                raise CollectionError(
                    f"claim {claim.id} is defined twice: in {entries[claim.id].module.__name__} "
                    f"and in {module.__name__}"
                )
            entries[claim.id] = Entry(section, claim, module, about.theory)
    if not entries:
        where = f"none of {', '.join(looked)} defines" if looked else "no module there to define"
        raise CollectionError(f"the package {package.__name__} has no claims: {where} CLAIM")
    top = package.__name__.partition(".")[0]
    folder = Path(next(iter(package.__path__)))
    return Collection(
        (name,),
        replace(about, sections=_headings(package, about, entries.values())),
        entries,
        (tuple((folder / place).resolve() for place in about.reference),),
        {p: root for p in (top, *about.sources) if (root := _root(p)) is not None},
    )


def _import_package(name: str) -> ModuleType:
    known = installed()
    target = known.get(name, name)
    top = target.partition(".")[0]
    here = os.getcwd()
    if target == name and os.path.isdir(os.path.join(here, top)) and here not in sys.path:
        sys.path.insert(0, here)
        importlib.invalidate_caches()
    try:
        if not all(part.isidentifier() for part in target.split(".")):
            raise ModuleNotFoundError(name=target)
        package = importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{target}.".startswith(f"{error.name}."):
            raise _import_error(target, error) from None
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known by name: {', '.join(known)}"
        raise CollectionError(
            f"--claims {name}: no package of that name in {here} or installed; {hint}"
        ) from None
    except (Exception, SystemExit) as error:
        raise _import_error(target, error) from None
    if not hasattr(package, "__path__"):
        raise CollectionError(
            f"--claims {name}: {target} is a module; claims come as a package, a folder with "
            "__init__.py"
        )
    return package


def _import_error(module: str, error: BaseException) -> CollectionError:
    """Why a module cannot be imported, and where, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return CollectionError(f"{module} cannot be imported: {type(error).__name__}: {error}{place}")


def _modules(package: ModuleType, about: About) -> Iterator[tuple[str, ModuleType]]:
    """Section and module, in the order of the report. What begins with an underscore is not for
    claims."""
    infos = [i for i in pkgutil.iter_modules(package.__path__) if not i.name.startswith("_")]
    found = {i.name: i.ispkg for i in infos}
    flat = package.__name__.rpartition(".")[2]
    first = [s for s in about.sections if s in found or s == flat]
    for section in dict.fromkeys([*first, flat, *sorted(found)]):
        if section == flat and not found.get(section, False):
            folder, prefix = package.__path__, package.__name__
        elif found[section]:
            prefix = f"{package.__name__}.{section}"
            folder = _imported(prefix).__path__
        else:
            continue
        for info in sorted(pkgutil.iter_modules(folder), key=lambda i: i.name):
            if not info.name.startswith("_") and not info.ispkg:
                yield section, _imported(f"{prefix}.{info.name}")


def _imported(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise _import_error(module, error) from None


def _claims_of(module: ModuleType) -> list[Claim]:
    """The claims that a module defines: `CLAIM`, or all of `CLAIMS`; checked at the door."""
    found: list[tuple[str, Any]] = []
    if hasattr(module, "CLAIM"):
        found.append(("CLAIM", module.CLAIM))
    several = getattr(module, "CLAIMS", ())
    if isinstance(several, Claim) or not isinstance(several, Sequence):
        raise CollectionError(f"{module.__name__}.CLAIMS must be a list or tuple of Claim")
    found += [(f"CLAIMS[{i}]", claim) for i, claim in enumerate(several)]
    for name, claim in found:
        where = f"{module.__name__}.{name}"
        if not isinstance(claim, Claim):
            raise CollectionError(
                f"{where} is of type {type(claim).__name__}; it must be a verify.claim.Claim"
            )
        if not isinstance(claim.id, str) or not _NAME.match(claim.id):
            raise CollectionError(
                f"{where}: the id {claim.id!r} must consist of letters, digits, '.', '_' and '-'"
            )
        if bad := [c.name for c in claim.checks if not _CHECK.match(c.name)]:
            raise CollectionError(f"{where}: the check name {bad[0]!r} must not be empty or hold /")
    return [claim for _, claim in found]


def _headings(package: ModuleType, about: About, entries: Any) -> dict[str, str]:
    names = dict.fromkeys(entry.section for entry in entries)
    return {s: about.sections.get(s, s.replace("_", " ").capitalize()) for s in names}


def _root(package: str) -> Path | None:
    """The folder that holds a top-level package or module."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise CollectionError(f"ABOUT.sources names {package!r}, which cannot be found")
    places = list(spec.submodule_search_locations or [])
    if places:
        return Path(places[0]).resolve().parent
    return Path(spec.origin).resolve().parent if spec.has_location and spec.origin else None


def _joined(parts: Sequence[Collection]) -> Collection:
    """Several collections as one: sections and documents are named by their package."""
    entries: dict[str, Entry] = {}
    sections: dict[str, str] = {}
    documents: dict[str, str] = {}
    conflicts: list[Conflict] = []
    for part in parts:
        name = part.names[0]
        for claim_id, entry in part.entries.items():
            if claim_id in entries:
                raise CollectionError(f"claim {claim_id} is defined twice, the second in {name}")
            sources = tuple(
                replace(s, document=f"{name} {s.document}") for s in entry.claim.sources
            )
            entries[claim_id] = entry._replace(
                section=f"{name}.{entry.section}", claim=replace(entry.claim, sources=sources)
            )
        sections |= {f"{name}.{s}": f"{name}: {h}" for s, h in part.about.sections.items()}
        documents |= {f"{name} {d}": what for d, what in part.about.documents.items()}
        conflicts += [
            replace(c, says={f"{name} {d}": text for d, text in c.says.items()})
            for c in part.about.conflicts
        ]
    about = About(
        paper="; ".join(p.about.paper for p in parts if p.about.paper),
        note=" ".join(p.about.note for p in parts if p.about.note),
        documents=documents,
        sections=sections,
        conflicts=tuple(conflicts),
    )
    return Collection(
        tuple(p.names[0] for p in parts),
        about,
        entries,
        tuple(places for p in parts for places in p.references),
        {package: root for p in parts for package, root in p.roots.items()},
    )
