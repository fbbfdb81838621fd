"""leanlloyd sweep: killed, crowded, out of disk, and given plans that make no sense."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from constructions.training import Settings
from verify.cli import main
from verify.experiments import plans, runs, sweep, workers
from verify.experiments.cells import Cell
from verify.experiments.results import CURVES
from verify.experiments.runs import MODELS, TrainingRun
from verify.experiments.sweep import Job, Outcome, SweepError

SIZE = {"n": 16, "d": 2, "k": 3, "batch": 4, "validate_every": 10, "validation_batches": 1}
SIZE_LINES = "\n".join(f"{name} = {value}" for name, value in SIZE.items())
STEPS = 60
PLAN = f"""
steps = {STEPS}
seeds = 2
[settings]
{SIZE_LINES}
[[grid]]
temperature = [0.1, 0.5, 1]
[[grid]]
family = "cauchy"
"""
ENDLESS = 10**8
PATIENCE = 120.0  # seconds that anything may take before a test fails


def jobs(*temperatures: float, steps: int = STEPS, **options: Any) -> list[Job]:
    cells = [Cell(Settings(**SIZE, temperature=t, **options), (0, 1), steps) for t in temperatures]
    return sweep.jobs_for(cells)


def command(plan: Path, out: Path, *arguments: str) -> list[str]:
    # a test run in the background of a shell ignores Ctrl-C, and children inherit that
    start = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from verify.cli import main; main()"
    )
    return [sys.executable, "-c", start, "sweep", str(plan), "--out", str(out), *arguments]


@contextlib.contextmanager
def in_a_group(arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A command with all its processes in a group of their own, of which nothing is left."""
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def eventually(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def at_work(*locks: Path) -> list[int]:
    """The processes that hold, or held, the locks of cells."""
    texts = [lock.read_text() for lock in locks if lock.exists()]
    return [int(text.split()[1]) for text in texts if text]


def read_until(process: subprocess.Popen[str], start: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(start):
            return
    pytest.fail(f"no line starts with {start!r}")


def run_main(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["leanlloyd", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def half_train(job: Job, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a cell as a kill after its third validation leaves it."""
    with monkeypatch.context() as patched:
        patched.setattr(runs, "CHECKPOINT_EVERY", -1.0)
        training = TrainingRun(job.cell, job.place(folder)).proceed()
        for _ in range(4):
            next(training)
        training.close()  # type: ignore[attr-defined]


def curves(folder: Path) -> pa.Table:
    return pq.read_table(folder / CURVES).drop_columns(["seconds"])


def each_once(table: pa.Table, wanted: Sequence[Job]) -> None:
    """Every (cell, seed, step) is there, and only once."""
    rows = [(r["cell"], r["seed"], r["step"]) for r in table.to_pylist()]
    steps = range(10, STEPS + 1, 10)
    assert sorted(rows) == sorted(
        (j.cell.name, s, t) for j in wanted for s in (0, 1) for t in steps
    )


def test_a_killed_sweep_continues_to_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, whole, killed = tmp_path / "plan.toml", tmp_path / "whole", tmp_path / "killed"
    plan.write_text(PLAN)
    wanted = sweep.jobs_for(plans.read(str(plan)))
    whole.mkdir()
    for job in wanted:
        assert not sweep.carry_out(job, whole).failure
    assert sweep.collect(whole) == []
    each_once(curves(whole), wanted)

    half_train(wanted[1], killed, monkeypatch)
    assert 0 < TrainingRun(wanted[1].cell, wanted[1].place(killed)).resumed < STEPS
    with in_a_group(command(plan, killed, "-j", "2")) as process:
        read_until(process, "[1/4 cells]")
        os.killpg(process.pid, signal.SIGKILL)
    assert not (killed / CURVES).exists()
    leftover = wanted[0].place(killed) / ".state.safetensors.x1"
    leftover.parent.mkdir(exist_ok=True)
    leftover.touch()  # a file that the kill left half written
    (wanted[0].place(killed) / MODELS).unlink(missing_ok=True)
    assert run_main(["sweep", str(plan), "--out", str(killed), "-j1"], monkeypatch) == 0
    assert "4 of 4 cells finished" in capsys.readouterr().out
    assert curves(killed).equals(curves(whole))
    for job in wanted:
        same = [(job.place(folder) / MODELS).read_bytes() for folder in (whole, killed)]
        assert same[0] == same[1]
    assert not leftover.exists()

    # what is finished is not computed again
    def written() -> list[int]:
        return [f.stat().st_mtime_ns for f in sorted(killed.glob("cells/*/*"))]

    before = written()
    assert run_main(["sweep", str(plan), "--out", str(killed), "-j", "2"], monkeypatch) == 0
    assert "4 cells, 4 of them finished before" in capsys.readouterr().err
    assert written() == before


def test_a_killed_process_is_replaced_and_a_deadly_cell_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "DEATHS", 2)
    (deadly,) = jobs(0.1, steps=ENDLESS)
    others = jobs(0.1, 0.5, 1.0)
    killed: set[int] = set()

    def kill() -> None:
        lock = deadly.place(tmp_path) / "lock"
        while len(killed) < workers.DEATHS:
            found = set(at_work(lock)) - killed
            for process in found:
                os.kill(process, signal.SIGKILL)
            killed.update(found)
            time.sleep(0.02)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    outcomes: dict[str, Outcome] = {}
    for outcome in workers.local([deadly, *others], tmp_path, 2):
        assert outcome.name not in outcomes
        outcomes[outcome.name] = outcome
    killer.join(PATIENCE)
    failed = outcomes.pop(deadly.cell.name)
    assert failed.failure == "its process died 2 times, at last with signal 9"
    assert set(outcomes) == {job.cell.name for job in others}
    assert not any(o.failure for o in outcomes.values())
    assert multiprocessing.active_children() == []
    sweep.collect(tmp_path)
    each_once(curves(tmp_path), others)


def test_ctrl_c_and_a_kill_leave_no_process_behind(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace(f"steps = {STEPS}", f"steps = {ENDLESS}"))
    with in_a_group(command(plan, tmp_path / "a", "-j", "1")) as process:
        read_until(process, "4 cells")
        eventually(lambda: at_work(*(tmp_path / "a").glob("cells/*/lock")))
        (worker,) = at_work(*(tmp_path / "a").glob("cells/*/lock"))
        os.kill(worker, signal.SIGINT)  # is for the first process to decide
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.stderr is not None
        assert process.stderr.read().strip() == "leanlloyd: interrupted"
        assert process.wait(PATIENCE) == 130
        eventually(lambda: gone(process.pid))
    with in_a_group(command(plan, tmp_path / "b", "-j", "1")) as process:
        eventually(lambda: at_work(*(tmp_path / "b").glob("cells/*/lock")))
        process.kill()  # the first process only
        process.wait(PATIENCE)
        eventually(lambda: gone(process.pid))


def test_a_failing_cell_and_a_diverging_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN + "[[grid]]\nlearning_rate = 1e30\n")
    wanted = sweep.jobs_for(plans.read(str(plan)))
    bad, lost = wanted[1], wanted[-1]
    bad.place(tmp_path).mkdir(parents=True)
    (bad.place(tmp_path) / "state.safetensors").write_text("noise")
    here = (sweep.carry_out(job, tmp_path) for job in wanted)
    with monkeypatch.context() as patched:
        patched.setattr(workers, "local", lambda *_: here)
        assert run_main(["sweep", str(plan), "--out", str(tmp_path)], patched) == 1
    said = capsys.readouterr()
    assert f"{lost.cell.name}: 2 diverged" in said.err
    out = said.out.splitlines()
    assert len(out) == 2
    assert out[0].startswith(f"failed: {bad.cell.name}: InputError: {bad.place(tmp_path)}/state.")
    assert out[1] == f"4 of 5 cells finished; tables in {tmp_path}"
    found = curves(tmp_path)
    each_once(found, [job for job in wanted if job is not bad])
    rows = [row for row in found.to_pylist() if row["cell"] == lost.cell.name]
    assert all(math.isnan(row["loss"]) and math.isnan(row["relative"]) for row in rows)

    # a finished cell whose files are damaged is named, and the others stay in the table
    (wanted[0].place(tmp_path) / "record.json").write_text("{")
    assert [o.name for o in sweep.collect(tmp_path)] == [wanted[0].cell.name]
    each_once(curves(tmp_path), [j for j in wanted if j not in (bad, wanted[0])])


def test_a_cell_that_another_sweep_works_on_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "LOOK_AGAIN", 0.05)
    wanted = jobs(0.1, 0.5)
    said: list[str] = []
    with sweep._locked(wanted[0].place(tmp_path)) as holder, contextlib.ExitStack() as stack:
        assert not holder
        assert sweep.held(wanted[0], tmp_path)
        found = workers.local(wanted, tmp_path, 1, said.append)
        stack.enter_context(contextlib.closing(found))
        assert next(found).name == wanted[1].cell.name
        (text,) = said
        assert text.startswith(f"{wanted[0].cell.name}: left to process {os.getpid()} on ")
        stack.pop_all()
    assert [o.name for o in found] == [wanted[0].cell.name]
    assert len(said) == 1


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write beyond a few bytes fails, as it does on a full disk, with another number."""
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text(PLAN)
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900));"
    arguments = command(plan, out, "-j", "1")
    arguments[2] = limited + arguments[2]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    assert done.returncode == 4, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"leanlloyd: cannot write the sweep: File too large: {out}/cells/")
    assert "Traceback" not in done.stderr
    # and with the number of a full disk
    (job,) = jobs(0.1)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(runs, "write_atomically", full)
    with pytest.raises(SweepError, match=r"No space left on device: .*/cells/"):
        sweep.carry_out(job, out)


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[str]:
    """The address of a scheduler with two worker processes, all of them gone in the end."""
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    common = ["--no-dashboard"]
    file = tmp_path / "scheduler.json"

    def start(module: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *arguments, *common],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    at_loopback = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
    processes = [start("dask_scheduler", *at_loopback)]
    try:
        eventually(lambda: file.exists() and file.read_text())
        address = json.loads(file.read_text())["address"]
        for i in range(2):
            folder = ["--local-directory", str(tmp_path / f"worker-{i}")]
            processes.append(
                start("dask_worker", address, "--no-nanny", "--nthreads", "1", *folder)
            )
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_dask_cluster_of_which_a_worker_is_killed(
    dask: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text(PLAN)
    wanted = sweep.jobs_for(plans.read(str(plan)))
    half_train(wanted[0], out, monkeypatch)
    locks = [job.place(out) / "lock" for job in wanted]
    with in_a_group(command(plan, out, "--scheduler", dask)) as process:
        eventually(lambda: at_work(*locks))
        os.kill(at_work(*locks)[0], signal.SIGKILL)
        assert process.stderr is not None
        said = process.stderr.read().splitlines()
        assert process.wait(PATIENCE) == 0, said
    each_once(curves(out), wanted)
    # every line is ours, and every cell is named once; the workers may have come later
    said = [line for line in said if not line.startswith(dask)]
    assert said[0] == f"4 cells, 0 of them finished before; {out}"
    assert [line.partition("] ")[0] for line in said[1:]] == [f"[{i}/4 cells" for i in range(1, 5)]
    names = {line.partition("] ")[2].partition(": ")[0] for line in said[1:]}
    assert names == {job.cell.name for job in wanted}


def test_no_dask_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    out = str(tmp_path / "out")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run_main(["sweep", str(plan), "--out", out, "--scheduler", "x:1"], monkeypatch) == 4
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == (
        "leanlloyd: --scheduler needs dask.distributed; pip install 'leanlloyd[sweep]'"
    )
    monkeypatch.undo()
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    address = "tcp://127.0.0.1:1"
    started = time.monotonic()
    arguments = command(plan, tmp_path / "out", "--scheduler", address)
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    assert done.returncode == 4
    assert done.stderr.splitlines()[1].startswith(f"leanlloyd: no Dask scheduler at {address}")
    assert done.stderr.count("\n") == 2
    assert time.monotonic() - started < PATIENCE


def changed(old: str, new: str) -> str:
    assert old in PLAN
    return PLAN.replace(old, new)


MANY = changed("k = 3", f"k = {[*range(2, 90)]}")
MANY = MANY.replace("[0.1, 0.5, 1]", f"{[*range(1, 202)]}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (changed("seeds", "sedes"), "unknown key 'sedes'; allowed: steps, seeds, settings, grid"),
        (changed("batch", "bach"), "unknown key 'bach' in [settings]; allowed: d, k,"),
        (changed("family", "famly"), "unknown key 'famly' in [[grid]] 2; allowed: d, k,"),
        (changed("steps = 60", ""), "steps is missing; expected an integer from 1 to"),
        (changed("seeds = 2", "seeds = 2.5"), "seeds = 2.5; expected an integer from 1 to"),
        (changed("seeds = 2", "seeds = 10000000"), "seeds = 10000000; expected an integer from 1"),
        (changed("steps = 60", "steps = true"), "steps = True; expected an integer from 1 to"),
        (changed("k = 3", 'k = "3"'), "k = '3'; expected an integer, or a list of them"),
        (changed("k = 3", "k = 17"), "n = 16 is out of range"),
        (changed("k = 3", "k = [3, 17]"), "n = 16 is out of range"),
        (changed('"cauchy"', '"uniform"'), "family = 'uniform' is not known"),
        (changed('"cauchy"', "3"), "family = 3; expected a string, or a list of them"),
        (changed("0.5", "0"), "temperature = 0.0 is out of range"),
        (changed("0.5", "-1"), "temperature = -1.0 is out of range"),
        (changed("0.5", "nan"), "temperature = nan is out of range"),
        (changed("[0.1, 0.5, 1]", "[]"), "[[grid]] 1: temperature lists nothing"),
        (changed("[[grid]]", "[[grill]]"), "unknown key 'grill'; allowed: steps, seeds,"),
        (changed("[settings]", "grid = []\n[settings]").partition("[[")[0], "grid lists nothing"),
        (changed("[[grid]]", "[grid]").replace("[grid]\nfam", "fam"), "grid is not a list of"),
        (MANY, "[[grid]] 1 has 17688 combinations; allowed: at most 10000"),
        (changed("[settings]", "[settings"), "cannot be read as TOML"),
        ("\0", "cannot be read as TOML"),
    ],
)  # fmt: skip
def test_a_plan_that_makes_no_sense_is_one_line(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    assert run_main(["sweep", str(plan)], monkeypatch) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"leanlloyd: {plan}: {says}")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["laptopp"], 2, "no plan 'laptopp'; expected paper, laptop, smoke, or a .toml file"),
        (["nowhere.toml"], 2, "nowhere.toml: no such file"),
        (["smoke", "-j", "0"], 2, "--jobs 0 is out of range"),
        (["smoke", "-j", "many"], 2, "Invalid value for '-j' / '--jobs'"),
        (["smoke", "--out", "/dev/null"], 2, "/dev/null is not a folder"),
        (["smoke", "--out", "/dev/null/sweep"], 4, "cannot write the sweep: Not a directory: /dev"),
        ([], 2, "Missing argument 'PLAN'"),
    ],
)
def test_bad_arguments_are_one_line(
    arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert run_main(["sweep", *arguments], monkeypatch) == code
    error = capsys.readouterr().err
    assert error.startswith(f"leanlloyd: {says}")
    assert error.count("\n") == 1


def test_what_a_plan_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    assert run_main(["sweep", str(plan), "--list"], monkeypatch) == 0
    names = capsys.readouterr().out.splitlines()
    assert names == [cell.name for cell in plans.read(str(plan))]
    assert len(set(names)) == 4
    assert "tau0.5" in names[1]
    assert "family=cauchy" in names[3]
    out = str(tmp_path / "out")
    assert run_main(["sweep", str(plan), "--out", out, "--estimate"], monkeypatch) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == ["[1/2 shapes timed]", "[2/2 shapes timed]"]
    assert said.out.startswith("4 cells, 8 models, 0 cells finished\n0.0 processor hours in all")
    assert not Path(out).exists()
    # a value is not a list of one, a file without a grid is one cell, and 1 is 1.0
    plan.write_text("steps = 5\nseeds = 3\n[settings]\nscale = 1\nregularizer = 2\n")
    (cell,) = plans.read(str(plan))
    assert cell == Cell(Settings(scale=1.0, regularizer=2.0), (0, 1, 2), 5)
    # names of cells with many settings stay short enough for a file, and apart
    many = {"inverse_temperature": 2.0, "bias": False, "family": "cauchy", "scaling": "common"}
    many |= {"isotropic": False, "equal_weights": False, "log_loss": True, "dropout": 0.01}
    long = [j.cell for s in (0.1, 0.2, 0.3) for j in jobs(0.1, scale=s, **many)]
    assert len({cell.name for cell in long}) == 3
    assert all(len(cell.name) < 200 for cell in long)
