"""``python -m nostray`` becomes the program: no Python process is left."""

import os
import signal
import sys
from typing import NoReturn

from . import find_program

# As the program itself exits if it cannot do its work.
FAILED = 125


def main() -> NoReturn:
    # Python ignores these two, and an ignored signal stays ignored in the program and in the child that it starts.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        program = find_program()
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(_report(error))


def _report(error: OSError) -> int:
    if error.filename is None and error.strerror is None:
        print(f"nostray: {error}", file=sys.stderr)
    else:
        print(f"nostray: cannot start the program: {error}; install it again for this machine", file=sys.stderr)
    return FAILED


if __name__ == "__main__":
    main()
