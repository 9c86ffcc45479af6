"""The files that the command line writes: looked at before anything is compiled, written at the end."""

from __future__ import annotations

import os
import sys
import tempfile

from .errors import InputError, check

STANDARD_OUTPUT = "-"


def check_files(*paths: str | None) -> None:
    """Refuses, before anything is compiled, files that can't be written."""
    named = [path for path in paths if path is not None]
    for path in named:
        if path != STANDARD_OUTPUT:
            _check_file(path)
    distinct = len({os.path.realpath(path) for path in named}) == len(named)
    check(distinct, f"two outputs go to {named[-1] if named else ''!r}: give two files", InputError)


def _check_file(path: str) -> None:
    parent = os.path.dirname(path) or os.curdir
    reason = None
    if os.path.isdir(path):
        reason = "it is a directory"
    elif not os.path.isdir(parent):
        reason = f"there is no directory {parent!r}"
    else:
        reason = _trial(path)
    check(reason is None, f"output file {path!r} can't be written: {reason}; give another path", InputError)


def _trial(path: str) -> str | None:
    """Why the file can't be opened for writing; None where it can. A file that was not there is not left behind."""
    is_new = not os.path.exists(path)
    try:
        with open(path, "ab"):
            pass
        if is_new:
            os.unlink(path)
    except OSError as e:
        return e.strerror or str(e)
    return None


def check_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as e:
        raise InputError(f"dump directory {path!r} can't be written: {e.strerror or e}; give another path") from None


def write(content: str | bytes, path: str) -> None:
    if path != STANDARD_OUTPUT:
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    elif isinstance(content, str):
        sys.stdout.write(content if content.endswith("\n") else content + "\n")
    else:
        sys.stdout.buffer.write(content)
