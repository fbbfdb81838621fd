"""Where commands write: files, links, pipes, devices, standard output; full and closed ones."""

from __future__ import annotations

import itertools
import json
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest

from verify.cli import COMMANDS, leanlloyd
from verify.files import begin_folder, complete_folder, write_atomically

ROOT = Path(__file__).resolve().parents[2]
needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


def run(command: str, **options: str) -> subprocess.CompletedProcess[str]:
    """A shell line with the command at hand as `leanlloyd`."""
    line = command.replace("leanlloyd", f"{sys.executable} -m verify")
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | options
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_link_is_followed_and_a_mode_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "target"
    target.parent.mkdir()
    target.write_text("old")
    target.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert (target.read_text(), mode(target)) == ("new", 0o600)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "not yet")
    write_atomically(dangling, "made")
    assert dangling.is_symlink()
    assert (tmp_path / "not yet").read_text() == "made"
    target.chmod(0o444)  # a file that is read-only stays so; its folder decides
    write_atomically(target, "again")
    assert (target.read_text(), mode(target)) == ("again", 0o444)
    assert sorted(p.name for p in target.parent.iterdir()) == ["target"]


def test_a_new_file_has_the_mode_of_new_files(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a" / "b", "new")
    finally:
        os.umask(old)
    assert mode(tmp_path / "a" / "b") == 0o640


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"x" * 200_000)  # more than a pipe holds
    reader.join(20)
    assert got == [b"x" * 200_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@needs_dev_full
def test_a_device_stays_a_device() -> None:
    before = Path("/dev/full").stat()
    with pytest.raises(OSError, match="/dev/full") as caught:
        write_atomically(Path("/dev/full"), "anything")
    assert caught.value.filename == "/dev/full"
    assert Path("/dev/full").stat().st_rdev == before.st_rdev
    write_atomically(Path("/dev/null"), "anything")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "kept"
    target.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="kept"):
            write_atomically(target, "x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_a_folder_is_private_until_it_is_complete(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        ours, theirs = tmp_path / "ours", tmp_path / "theirs"
        theirs.mkdir(0o750)
        for folder in (ours, theirs):
            begin_folder(folder)
        assert (mode(ours), mode(theirs)) == (0o700, 0o750)
        for folder in (ours, theirs):
            complete_folder(folder)
        assert (mode(ours), mode(theirs)) == (0o755, 0o750)
        assert not any(ours.iterdir())
    finally:
        os.umask(old)


@needs_dev_full
@pytest.mark.parametrize("command", ["list", "list --json", "show thm-2.1"])
def test_full_standard_output_is_one_line(command: str) -> None:
    done = run(f"leanlloyd {command} > /dev/full")
    assert done.returncode == 4
    assert done.stderr == ("leanlloyd: cannot write to standard output: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_seen_enough_is_no_failure(unbuffered: str) -> None:
    done = run(
        "set -o pipefail; leanlloyd list | head -1; echo ${PIPESTATUS[0]}",
        PYTHONUNBUFFERED=unbuffered,
    )
    assert done.stdout.split() == ["0"]
    assert done.stderr == ""


@needs_dev_full
def test_what_failed_is_named(tmp_path: Path) -> None:
    points = tmp_path / "points.csv"
    points.write_text("x,y\n0,0\n1,0\n4,4\n5,4\n")
    audit = f"leanlloyd audit {points} -k 2"
    full = run(f"{audit} --out /dev/full")
    assert (full.returncode, full.stderr) == (
        4,
        "leanlloyd: cannot write /dev/full: No space left on device\n",
    )
    printed = run(f"{audit} --out -")
    assert json.loads(printed.stdout) == json.loads(run(f"{audit} --json").stdout)
    folder = tmp_path / "run"
    size = "-d 2 -k 2 -n 8 --seeds 1 --steps 2 --workers 1"
    train = run(f"leanlloyd train {size} --out {folder} > /dev/full")
    assert train.returncode == 4
    assert train.stderr.endswith(
        "leanlloyd: cannot write to standard output: No space left on device\n"
    )
    assert (folder / "models.safetensors").exists(), "the run is not lost"
    assert mode(folder) != 0o700


PAIRS = {"d": "-d", "k": "-k", "n": "-n"}
SAME_NAME = {
    "gamma": "--gamma", "tau": "--tau", "code": "--code", "regularizer": "--regularizer",
    "seed": "--seed", "out": "--out", "as_json": "--json",
    "inverse_temperature": "--gamma", "temperature": "--tau", "temperatures": "--tau",
    "codes": "--code",
}  # fmt: skip


def test_the_same_thing_has_the_same_name_in_every_command() -> None:
    seen = set()
    for name in COMMANDS:
        command = leanlloyd.get_command(click.Context(leanlloyd), name)
        assert command is not None
        for parameter in command.params:
            if not isinstance(parameter, click.Option):
                continue
            if parameter.name in PAIRS:
                short = PAIRS[parameter.name]
                assert {short, f"-{short}"} <= set(parameter.opts), f"{name} {parameter.opts}"
                seen.add(parameter.name)
            elif parameter.name in SAME_NAME:
                assert SAME_NAME[parameter.name] in parameter.opts, f"{name} {parameter.opts}"
        letters = [o for p in command.params for o in p.opts if o.startswith("-")]
        assert all(letters.count(o) == 1 for o in letters), f"{name}: an option twice"
    assert seen == set(PAIRS)
    assert len(list(itertools.chain(PAIRS, SAME_NAME))) > 10


def test_both_names_of_a_file_show_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("old and longer")
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    write_atomically(tmp_path / "one", "new")
    assert (tmp_path / "two").read_text() == (tmp_path / "one").read_text() == "new"
