"""nostray ties the whole process tree of a child to the host that started it.

The program ``nostray`` comes with this package. ``find_program()`` says where it is::

    import subprocess, nostray

    server = subprocess.Popen([nostray.find_program(), "run", "--", "npx", "-y", "some-server"])
"""

from typing import TYPE_CHECKING

from ._program import ProgramNotFoundError, find_program

__all__ = ["ProgramNotFoundError", "__version__", "find_program"]

if TYPE_CHECKING:
    __version__: str


# Reading the version takes longer than the rest of the import, and a host seldom asks for it.
def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("nostray")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
