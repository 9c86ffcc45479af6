"""The command line: `iree-reduce-plugin compile | run | verify | explain | devices | bench`.

Every way it can fail ends in one line and an exit code.

0: fine. 2: bad usage, input or tuning. 1: anything else. 130: Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence

from .cli_options import PROGRAM, joined, parser
from .errors import InputError, ReduceError

FINE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code; `sys.argv` is read where no arguments are given.

    >>> main(["verify", "--shape", "4x4096xf32", "--target", "gfx000"])
    2
    """
    # Python has no stream where the descriptor is closed.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  it stays open
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            code = _run(joined(list(sys.argv[1:] if arguments is None else arguments)))
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            return _say("interrupted", INTERRUPTED)
        except BrokenPipeError:  # the reader of the output has seen enough
            _drop_output()
            return FAILED
        except ValueError as e:  # InputError, TuningError, and NumPy's for axes and empty arrays
            return _say(str(e), REFUSED)
        except MemoryError as e:
            return _say(f"the array does not fit into memory: {e}; use a smaller --shape or --input", FAILED)
        except (ReduceError, OSError) as e:
            return _say(str(e) or type(e).__name__, FAILED)
        except Exception as e:
            return _say(_unexpected(e), FAILED)


def _run(arguments: list[str]) -> int:
    top = parser()
    try:
        options, unknown = top.parse_known_args(arguments)
    except SystemExit as e:  # argparse has printed its help
        return FINE if e.code in (0, None) else REFUSED
    if unknown:
        command = f" {options.command}" if options.command else ""
        raise InputError(f"unrecognized arguments: {' '.join(unknown)} (see {PROGRAM}{command} --help)")
    if options.version:
        print(_versions())
        return FINE
    if options.command is None:
        raise InputError(f"give a command: compile, run, verify, explain, devices or bench (see {PROGRAM} --help)")
    from . import cli_commands  # only here: it imports IREE's runtime, which help and usage errors can do without

    code: int = cli_commands.COMMANDS[options.command](options)
    return code


def _versions() -> str:
    from . import __version__
    from .toolchain import iree_version

    parts = ", ".join(f"{part} {iree_version(part) or 'not installed'}" for part in ("compiler", "runtime"))
    return f"{PROGRAM} {__version__} (IREE {parts})"


def _say(message: str, code: int) -> int:
    line = " ".join(message.split())
    line = line if len(line) <= 1000 else f"{line[:1000]}..."
    print(f"{PROGRAM}: error: {line}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"{PROGRAM}: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _unexpected(error: Exception) -> str:
    """One line for an error that nobody foresaw, with its traceback in a file."""
    from .cache import save_log

    log = save_log(traceback.format_exc())
    return f"{type(error).__name__}: {error}" + (f" (full log: {log})" if log else "")


def _drop_output() -> None:
    """Lets what is still buffered for a closed pipe go nowhere, so that Python's exit doesn't complain of it."""
    with contextlib.suppress(OSError, ValueError):  # a stdout without a file behind it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
