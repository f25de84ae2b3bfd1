"""``python -m nostray`` becomes the program: no Python process is left."""

import os
import signal
import sys
from typing import NoReturn

from . import ProgramNotFoundError, find_program
from ._program import IS_WINDOWS

# As the program itself exits if it cannot do its work.
FAILED = 125


def main() -> NoReturn:
    if IS_WINDOWS:
        # Windows has no call by which a process becomes another program, and this one would stay between the host and nostray.
        _fail("`python -m nostray` is not there on Windows; start the program itself, which is beside the interpreter's other scripts")
    # Python ignores these two, and an ignored signal stays ignored in the program and in the child that it starts.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        program = find_program()
        os.execve(program, [program, *sys.argv[1:]], _environment())
    except ProgramNotFoundError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"cannot start the program: {error}; install nostray again, on this machine: pip install --force-reinstall nostray")


def _environment() -> dict[bytes, bytes]:
    """Return the environment as this process was given it: in the locale C, Python sets LC_CTYPE for itself."""
    environment = dict(os.environb)
    try:
        with open("/proc/self/environ", "rb") as given:
            if not any(variable.startswith(b"LC_CTYPE=") for variable in given.read().split(b"\0")):
                environment.pop(b"LC_CTYPE", None)
    except OSError:
        pass
    return environment


def _fail(message: str) -> NoReturn:
    print(f"nostray: {message}", file=sys.stderr)
    sys.exit(FAILED)


if __name__ == "__main__":
    main()
