"""nostray ties the whole process tree of a child to the host that started it.

The program ``nostray`` comes with this package, and everything here is done by it::

    import nostray

    server = nostray.Popen(["npx", "-y", "some-server"], stdin=nostray.PIPE, stdout=nostray.PIPE)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._program import IS_WINDOWS, ProgramNotFoundError, find_program

if TYPE_CHECKING:
    from subprocess import DEVNULL, PIPE, STDOUT, CalledProcessError, CompletedProcess, TimeoutExpired

    from . import asyncio, mcp, parent, registry
    from ._async_lease import AsyncLease
    from ._errors import CallError, CallTimeout, ChildDied, Decline, LeaseError, NostrayError, SlotTaken
    from ._lease import Lease
    from ._options import CommandOptions, Ready, RunOptions, ShareOptions, Time, command, wrap
    from ._popen import Popen, run
    from ._session import Session
    from ._slot import Slot
    from ._status import Exit

    __version__: str

__all__ = [
    "AsyncLease", "CallError", "CallTimeout", "CalledProcessError", "ChildDied", "CommandOptions", "CompletedProcess", "DEVNULL",
    "Decline", "Exit", "Lease", "LeaseError", "NostrayError", "PIPE", "Popen", "ProgramNotFoundError", "Ready", "RunOptions", "STDOUT",
    "Session", "ShareOptions", "Slot", "SlotTaken", "Time", "TimeoutExpired", "__version__", "asyncio", "command", "find_program", "mcp",
    "parent", "registry", "run", "wrap",
]  # fmt: skip

# Loaded when a name of theirs is used: `python -m nostray` becomes the program at once, and a host pays for what it uses.
_HOMES = {
    "subprocess": "DEVNULL PIPE STDOUT CalledProcessError CompletedProcess TimeoutExpired",
    "nostray._async_lease": "AsyncLease",
    "nostray._errors": "CallError CallTimeout ChildDied Decline LeaseError NostrayError SlotTaken",
    "nostray._lease": "Lease",
    "nostray._options": "CommandOptions Ready RunOptions ShareOptions Time command wrap",
    "nostray._popen": "Popen run",
    "nostray._session": "Session",
    "nostray._slot": "Slot",
    "nostray._status": "Exit",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = ("asyncio", "mcp", "parent", "registry")

if IS_WINDOWS:
    # There is only what tells where the program is, or how it is called. The other names are as if they were not defined, so that
    # `hasattr`, `dir` and `from nostray import *` work as they do for any module.
    _HOMES_ON_WINDOWS = ("subprocess", "nostray._errors", "nostray._options")
    _MISSING: set[str] = {*_MODULES, *(name for name, home in _HOME_OF.items() if home not in _HOMES_ON_WINDOWS)}
    __all__[:] = [name for name in __all__ if name not in _MISSING]
else:
    _MISSING = set()


def __getattr__(name: str) -> Any:
    if name in _MISSING:
        raise AttributeError(f"nostray.{name} is not there yet on Windows; start a child by what nostray.command() returns")
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("nostray")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
