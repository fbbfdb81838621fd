"""Running, interrupting and resuming; files that are never half written."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from verify import claims, runner
from verify.claim import PROFILES, Case, Claim, Evidence, Kind, Measured, Method, Run
from verify.collection import OWN, Collection, Entry
from verify.files import write_atomically
from verify.search import Exhaustive, Property, Study

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Toys:
    """Two claims in a registry of their own. `ran` lists the checks as they are run."""

    first: Claim
    second: Claim
    source: Path
    ran: list[str]

    @property
    def all(self) -> list[Claim]:
        return [self.first, self.second]


def forget_sources():
    runner.fingerprint.cache_clear()
    runner._imported.cache_clear()


@pytest.fixture
def toys(tmp_path, monkeypatch):
    ran: list[str] = []

    def watched(name):
        def cases(run):
            ran.append(name)
            return (Case(x=x) for x in range(5))

        return Exhaustive(name, cases=cases)

    def broken(claim, run, e):
        ran.append("broken")
        raise ZeroDivisionError("planted")

    def toy(name, *checks):
        return Claim(
            name,
            "",
            "",
            "",
            (),
            Kind.UPPER,
            "",
            checks,
            "",
            "",
            measure=lambda case: Measured(Fraction(case["x"]), Fraction(7)),
        )

    drawn = Property("drawn", strategy=st.integers(0, 9).map(lambda x: Case(x=x)), count=20)
    first = toy("toy-1", watched("one"), watched("two"), drawn)
    second = toy("toy-2", watched("three"), Study("broken", Method.EXACT, broken))
    source = tmp_path / "section" / "toy.py"
    write_atomically(source, "version = 1\n")
    module = SimpleNamespace(__file__=str(source))
    table = {c.id: Entry("expressivity", c, module) for c in (first, second)}
    made = Collection((OWN,), claims.ABOUT, table)
    monkeypatch.setattr(claims, "collection", lambda: made)
    forget_sources()
    yield Toys(first, second, source, ran)
    forget_sources()


def run_all(toys, pending=None, run=None, only=None):
    started = []
    done = runner.run_all(
        only or toys.all, run or Run(), pending=pending, on_start=lambda *n: started.append(n)
    )
    results = {(d.claim_id, d.evidence.check): d for d in done}
    return started, results


def files(folder):
    return sorted(p.name for p in folder.rglob("*.json"))


def texts(results):
    return {key: json.dumps(d.evidence.to_json()) for key, d in results.items()}


def test_every_check_runs_and_a_crash_is_a_finding_about_that_check(toys):
    started, results = run_all(toys)
    assert started == [(5, 0)]
    assert toys.ran == ["one", "two", "three", "broken"]
    crashed = results["toy-2", "broken"].evidence
    assert crashed.problem.startswith("crashed with ZeroDivisionError: planted (test_runner.py, ")
    assert (crashed.method, crashed.cases) == (Method.EXACT, 0)
    assert all(not d.evidence.problem for key, d in results.items() if key[1] != "broken")
    assert all(d.seconds >= 0 for d in results.values())


def test_an_interrupted_run_picks_up_what_is_there(toys, tmp_path):
    pending = tmp_path / "pending"
    unfinished = runner.run_all(toys.all, Run(), pending=pending)
    next(unfinished)
    next(unfinished)
    unfinished.close()  # as an interrupt does
    assert toys.ran == ["one", "two"]
    assert files(pending) == ["toy-1--one.json", "toy-1--two.json"]
    toys.ran.clear()
    started, results = run_all(toys, pending)
    assert started == [(5, 2)]
    assert toys.ran == ["three", "broken"]
    assert texts(results) == texts(run_all(toys)[1])  # resumed or not: the same evidence
    toys.ran.clear()
    assert run_all(toys, pending)[0] == [(5, 5)]
    assert toys.ran == []
    runner.discard(pending)
    assert not pending.exists()
    runner.discard(pending)


def test_what_is_pending_belongs_to_one_seed_one_profile_and_one_source(toys, tmp_path):
    pending = tmp_path / "pending"
    run_all(toys, pending)
    for other in (Run(seed=1), Run(PROFILES["smoke"])):
        assert run_all(toys, pending, other)[0] == [(5, 0)]
        assert run_all(toys, pending, other)[0] == [(5, 5)]
    assert run_all(toys, pending)[0] == [(5, 5)]
    before = runner.fingerprint("toy-1")
    toys.source.write_text("version = 2\n")
    forget_sources()
    assert runner.fingerprint("toy-1") != before
    assert run_all(toys, pending)[0] == [(5, 0)]


def test_a_source_counts_if_a_claim_imports_it_however_indirectly(toys, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "_ROOT", tmp_path)
    near, far = tmp_path / "verify" / "near.py", tmp_path / "constructions" / "far" / "__init__.py"
    write_atomically(near, "import numpy\nfrom verify import nowhere\nimport verify.near\n")
    write_atomically(far, "A = 1\n")
    write_atomically(tmp_path / "verify" / "unrelated.py", "A = 1\n")
    toys.source.write_text("from verify import near\n")
    forget_sources()
    assert runner.sources("toy-1") == [toys.source, near]
    near.write_text("from constructions.far import A\n")
    forget_sources()
    assert runner.sources("toy-1") == [far, toys.source, near]
    before = runner.fingerprint("toy-1")
    far.write_text("A = 2\n")
    forget_sources()
    assert runner.fingerprint("toy-1") != before


def with_evidence(text, **fields):
    data = json.loads(text)
    return json.dumps(data | {"evidence": data["evidence"] | fields})


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "null",
        lambda text: "[]",
        lambda text: "\x00\xff",
        lambda text: json.dumps(json.loads(text) | {"evidence": None}),
        lambda text: json.dumps(json.loads(text) | {"evidence": {"check": "one"}}),
        lambda text: with_evidence(text, seconds=None, tables=[{"name": "t"}]),
        lambda text: text.replace('"exhaustive"', '"guessed"'),
        lambda text: with_evidence(text, witness=[4]),
    ],
    ids=[
        "half",
        "empty",
        "null",
        "list",
        "bytes",
        "no evidence",
        "fields",
        "tables",
        "method",
        "witness",
    ],
)
def test_a_damaged_file_is_run_again(toys, tmp_path, damage):
    pending = tmp_path / "pending"
    run_all(toys, pending)
    (place,) = pending.rglob("toy-1--one.json")
    place.write_text(damage(place.read_text()))
    toys.ran.clear()
    assert run_all(toys, pending)[0] == [(5, 4)]
    assert toys.ran == ["one"]
    assert run_all(toys, pending)[0] == [(5, 5)]


def test_a_worker_that_dies_is_an_infrastructure_error():
    class Deadly(Run):
        def __reduce__(self):
            return os._exit, (9,)

    units = [("thm-2.1", "as-stated"), ("thm-2.1", "small-grids")]
    before = dict(os.environ)
    with pytest.raises(runner.InfrastructureError, match=r"a worker process died.*same command"):
        list(runner._execute(units, Deadly(), jobs=2))
    assert dict(os.environ) == before
    deadline = time.monotonic() + 20
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert multiprocessing.active_children() == []


def test_workers_give_the_evidence_that_one_process_gives():
    """Through pickling, in another process, with other modules imported before."""
    units = [("thm-2.1", "as-stated"), ("param-count", claims.get("param-count").checks[0].name)]
    run = Run(PROFILES["smoke"])
    apart = {d.claim_id: d.evidence.to_json() for d in runner._execute(units, run, jobs=2)}
    alone = {d.claim_id: d.evidence.to_json() for d in runner._execute(units, run, jobs=1)}
    assert apart == alone


def test_a_check_runs_on_one_thread(toys, monkeypatch):
    """More threads add floats in another order, so a ledger would depend on the machine."""
    seen = {}

    def look(claim, run, e):
        np.ones((9, 9)) @ np.ones((9, 9))
        seen["pools"] = {pool["num_threads"] for pool in threadpool_info()}
        seen["OMP"] = os.environ["OMP_NUM_THREADS"]

    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    object.__setattr__(toys.first, "checks", (Study("look", Method.EXACT, look),))
    run_all(toys, only=[toys.first])
    assert seen == {"pools": {1}, "OMP": "1"}
    assert os.environ["OMP_NUM_THREADS"] == "2"


def test_a_fingerprint_covers_what_a_claim_is_made_of():
    for claim_id in claims.registry():
        names = {f.relative_to(ROOT).as_posix() for f in runner.sources(claim_id)}
        assert {"verify/claim.py", "verify/search.py", "verify/draws.py"} <= names, claim_id
        assert not {n for n in names if n.startswith(("verify/report/", "verify/commands/"))}
    names = {f.relative_to(ROOT).as_posix() for f in runner.sources("thm-2.1")}
    assert names >= {
        "constructions/attention.py",
        "constructions/rationals.py",
        "verify/claims/expressivity/_shared.py",
        "verify/claims/expressivity/thm_2_1.py",
        "verify/oracles/clustering.py",
        "verify/strategies.py",
    }


def test_writing_replaces_the_whole_file_or_nothing(tmp_path, monkeypatch):
    place = tmp_path / "new" / "folder" / "ledger.json"
    write_atomically(place, "first")
    assert place.read_text() == "first"
    write_atomically(place, b"\xff\x00")
    assert place.read_bytes() == b"\xff\x00"
    umask = os.umask(0o027)
    try:
        place.unlink()
        write_atomically(place, "mode")
    finally:
        os.umask(umask)
    assert place.stat().st_mode & 0o777 == 0o640
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(place, "second")
    assert place.read_text() == "mode"
    assert [p.name for p in place.parent.iterdir()] == ["ledger.json"]


def test_a_reader_never_meets_half_a_file(tmp_path):
    place = tmp_path / "ledger.json"
    contents = {"a" * 200_000, "b" * 150_000}
    write_atomically(place, "a" * 200_000)
    met = set()

    def read():
        for _ in range(300):
            met.add(place.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for content in sorted(contents) * 40:
        write_atomically(place, content)
    reader.join()
    assert met <= contents


def test_a_kill_leaves_the_old_file(tmp_path):
    place = tmp_path / "ledger.json"
    write_atomically(place, "old")
    program = (
        "import os, signal, tempfile\n"
        "from pathlib import Path\n"
        "from verify.files import write_atomically\n"
        "real = os.fdopen\n"
        "class Cut:\n"
        "    def __init__(self, file): self.file = file\n"
        "    def __enter__(self): return self\n"
        "    def __exit__(self, *a): pass\n"
        "    def write(self, data):\n"
        "        self.file.write(data[:1])\n"
        "        self.file.flush()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.fdopen = lambda *a: Cut(real(*a))\n"
        f"write_atomically(Path({str(place)!r}), 'new')\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert place.read_text() == "old"


def test_evidence_is_stored_with_its_exact_numbers(toys, tmp_path):
    pending = tmp_path / "pending"
    _, results = run_all(toys, pending)
    _, again = run_all(toys, pending)
    e: Evidence = again["toy-1", "one"].evidence
    assert e.ratio == Fraction(4, 7) == results["toy-1", "one"].evidence.ratio
    assert e.witness == Case(x=4)
