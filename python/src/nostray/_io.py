"""The one thread that waits for all leases of this process. It starts with the first lease, and runs no code of the host's."""

from __future__ import annotations

import logging
import os
import select
import threading
from typing import Callable, Optional

_log = logging.getLogger("nostray")


class IoThread(threading.Thread):
    """Calls back when a descriptor is ready. Descriptors may be added and changed from any thread, and are removed in this one."""

    def __init__(self) -> None:
        super().__init__(name="nostray-io", daemon=True)
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}

    def add(self, fd: int, callback: Callable[[], None]) -> None:
        self._callbacks[fd] = callback
        self._epoll.register(fd, select.EPOLLIN)

    def want_write(self, fd: int, wanted: bool) -> None:
        self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def remove(self, fd: int) -> None:
        self._epoll.unregister(fd)
        del self._callbacks[fd]

    def run(self) -> None:
        while True:
            for fd, _events in self._epoll.poll():
                callback = self._callbacks.get(fd)
                if callback is not None:
                    try:
                        callback()
                    except Exception:
                        # It serves other leases, too.
                        _log.exception("a lease failed")

    def forget(self) -> None:
        """In a forked process: closes its copy. To remove the descriptors would remove them for the parent, too."""
        self._epoll.close()
        self._callbacks.clear()


_lock = threading.Lock()
_thread: Optional[IoThread] = None


def io_thread() -> IoThread:
    """Return the thread of this process."""
    global _thread
    with _lock:
        if _thread is None:
            thread = IoThread()
            thread.start()
            _thread = thread
        return _thread


def _after_fork() -> None:
    # The threads of the parent are not here, and one of them may have held the lock.
    global _lock, _thread
    _lock = threading.Lock()
    if _thread is not None:
        _thread.forget()
        _thread = None


os.register_at_fork(after_in_child=_after_fork)
