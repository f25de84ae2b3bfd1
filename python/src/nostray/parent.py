"""For programs that are children themselves: learn that the parent has ended, or end with it. By a pidfd, so by identity and at once."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._errors import NostrayError
from ._program import find_program

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


def _open() -> Optional[int]:
    """Return a pidfd of the parent; None if it has just ended."""
    pid = os.getppid()
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    # Otherwise the number may already be that of another process.
    if os.getppid() == pid:
        return fd
    os.close(fd)
    return None


class watch:
    """Calls ``callback()`` once when the parent that this process has now has ended, in a thread that waits for nothing else.

    ``cancel()`` ends the watch; it is also a context manager. A callback that has not begun by then is not called.
    """

    def __init__(self, callback: Callable[[], Any]) -> None:
        self._callback = callback
        self._parent = _open()
        self._lock = threading.Lock()
        self._cancelled = False
        self._wake, self._cancel_end = os.pipe()
        threading.Thread(target=self._watch, name="nostray-parent", daemon=True).start()

    def cancel(self) -> None:
        """End the watch. May be called again."""
        with self._lock:
            if not self._cancelled:
                self._cancelled = True
                os.close(self._cancel_end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.cancel()

    def _watch(self) -> None:
        if self._parent is not None:
            poll = select.poll()
            poll.register(self._parent, select.POLLIN)
            poll.register(self._wake, select.POLLIN)
            poll.poll()
            os.close(self._parent)
        os.close(self._wake)
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            os.close(self._cancel_end)
        self._callback()


async def gone() -> None:
    """Return when the parent that this process has now has ended."""
    fd = _open()
    if fd is None:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


# The process that ends with its parent: this one, or the one that this one was forked from.
_with_parent: Optional[int] = None
_lock = threading.Lock()


def die_with() -> None:
    """End this process when its parent has ended: by SIGTERM, and five seconds later by SIGKILL.

    The program ``nostray`` does it, so this works also while this process hangs in code that is not Python's. Returns when the parent is
    watched. Does nothing if it was called before in this process.
    """
    global _with_parent
    with _lock:
        if _with_parent == os.getpid():
            return
        # Kept open, so that its last line has a reader.
        read_end, write_end = os.pipe()
        waiter = subprocess.Popen(
            [find_program(), "wait", "--parent-of", str(os.getpid()), "--end-caller", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            # Ctrl-C is for this program, which may go on.
            start_new_session=True,
        )
        os.close(write_end)
        if not os.read(read_end, 1):
            os.close(read_end)
            raise NostrayError(f"nostray wait ended with code {waiter.wait()}")
        # It lives as long as this process, which neither reaps it nor warns of it.
        waiter.returncode = 0
        _with_parent = os.getpid()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
