"""Writing files so that a reader, or a kill at any moment, never meets half of one.

A target that a user names can be anything that has a name: a file, a link to one, a pipe, a
device, `-` for standard output. Only a regular file is replaced, and it keeps its mode and owner;
everything else is written into.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

STANDARD_OUTPUT = Path("-")
_INCOMPLETE = ".incomplete"  # in a folder that this project made and has not finished
_LIVE = ("/dev/", "/proc/")  # names of open files: replacing what they point to would miss them


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside the target and rename over it. Makes the folder if needed.

    A link is followed. A regular file keeps its mode, owner and access list. What is not a regular
    file (a pipe, a device) is written into, and `-` is standard output.

    Raises
    ------
    OSError
        it cannot be written; `filename` is the target, and what stood there before still does.
    """
    data = content.encode() if isinstance(content, str) else content
    if path == STANDARD_OUTPUT:
        print(data.decode("utf-8"), end="")
        return
    try:
        if _is_live(path):
            with path.open("wb", buffering=0) as file:
                _write_all(file.fileno(), data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from None


def begin_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter until `complete_folder`. One that is there
    already stays as it is."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        (folder / _INCOMPLETE).touch()


def complete_folder(folder: Path) -> None:
    """Give a folder of `begin_folder` the mode that new folders have."""
    mark = folder / _INCOMPLETE
    if mark.exists():
        folder.chmod(0o777 & ~_umask())
        mark.unlink()


def _is_live(path: Path) -> bool:
    if os.path.abspath(path).startswith(_LIVE):
        return True
    try:
        found = path.stat()
        # a file with a second name has to show the same under both
        return not stat.S_ISREG(found.st_mode) or found.st_nlink > 1
    except FileNotFoundError:
        return False


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if path.exists():
            before = path.stat()
            with contextlib.suppress(PermissionError):  # only the superuser gives files away
                os.chown(temporary, before.st_uid, before.st_gid)
            shutil.copystat(path, temporary)  # mode, and the access list among the attributes
            os.utime(temporary)
        else:
            temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
