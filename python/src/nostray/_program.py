"""Where the program is that was installed with this package."""

import os
import sysconfig
from collections.abc import Iterator


IS_WINDOWS = os.name == "nt"


class ProgramNotFoundError(FileNotFoundError):
    """The program ``nostray`` is not where an installer puts it."""


def find_program() -> str:
    """Return the path of the program ``nostray`` that was installed with this package.

    ``PATH`` is not searched: a ``nostray`` that stands there may have another version.
    """
    tried = []
    for directory in _directories():
        program = os.path.join(directory, "nostray.exe" if IS_WINDOWS else "nostray")
        if os.access(program, os.X_OK) and os.path.isfile(program):
            return program
        if program not in tried:
            tried.append(program)
    places = "".join(f"\n  {program}" for program in tried)
    raise ProgramNotFoundError(
        "the program that belongs to the Python package nostray is missing; "
        f"install it again with: pip install --force-reinstall nostray; it was looked for here:{places}"
    )


def _directories() -> Iterator[str]:
    """Directories for programs, first those that follow from where this package is."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    library = os.path.dirname(packages)
    # PREFIX/lib/python3.11/site-packages: a virtual environment, a prefix, a user's or the system's own packages.
    if os.path.basename(library).startswith("python"):
        yield os.path.join(os.path.dirname(os.path.dirname(library)), "bin")
    # PREFIX/Lib/site-packages, on Windows.
    if IS_WINDOWS:
        yield os.path.join(os.path.dirname(library), "Scripts")
    # pip install --target
    yield os.path.join(packages, "bin")
    # The interpreter's own answer, for other layouts.
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", "nt_user" if IS_WINDOWS else "posix_user")
