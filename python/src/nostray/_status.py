"""The status descriptor of a front: what became of the child, told by the program itself, one JSON object a line."""

from __future__ import annotations

import fcntl
import json
import os
import select
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union


@dataclass(frozen=True)
class Exit:
    """How a child ended, and why."""

    code: Optional[int]
    """Its exit code; None if a signal ended it."""
    signal: Optional[int]
    """The signal that ended it; None if it exited."""
    reason: str
    """The journal's word for why, like ``child-ended``, ``stop-request`` or ``host-gone``."""
    text: str
    """The same for people, like "its input was closed"."""


def objects(lines: Union[bytes, bytearray]) -> list[dict[str, Any]]:
    """Return the JSON objects of whole lines, without what is none."""
    found = []
    for line in lines.split(b"\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def above_stdio(fd: int) -> int:
    """Return this descriptor, moved if need be: in a host without stdin, stdout or stderr it may have one of their numbers."""
    if fd > 2:
        return fd
    moved: int = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


class Status:
    """The host's end of it, for a direct child. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rest = b""
        self._fd = self.write_end = -1
        self._fd, self.write_end = (above_stdio(fd) for fd in os.pipe())
        os.set_blocking(self._fd, False)
        self._over = False
        self.id: Optional[str] = None
        self.pid: Optional[int] = None
        self.start: Optional[dict[str, Any]] = None
        """Whether it became its program; or why there is none."""
        self.ready = False
        self._stopping: Optional[dict[str, Any]] = None
        self.exited: Optional[dict[str, Any]] = None

    def __del__(self) -> None:
        self.close_write_end()
        if self._fd >= 0:
            os.close(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close_write_end(self) -> None:
        """The front has its own."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def read(self) -> bool:
        """Take in what there is. False if nothing can follow."""
        with self._lock:
            while not self._over:
                try:
                    chunk = os.read(self._fd, 65536)
                except BlockingIOError:
                    break
                self._over = not chunk
                lines, end, rest = (self._rest + chunk).rpartition(b"\n")
                self._rest = rest
                for event in objects(lines + end):
                    self._take(event)
            return not self._over

    def until(self, met: Callable[[], bool], timeout: Optional[float] = None) -> bool:
        """Wait until this is met; False if it cannot be met any more. A ``TimeoutError`` if it is not met in time."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            more = self.read()
            if met() or not more:
                return met()
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            poll.poll(None if left is None else left * 1000)

    def returncode(self, of_front: int) -> int:
        """Return the child's code as ``subprocess`` has it: the front tells of a signal by 128 and its number."""
        self.read()
        if self.exited is None:
            return of_front
        signal, code = self.exited.get("signal"), self.exited.get("code")
        return -signal if isinstance(signal, int) else code if isinstance(code, int) else of_front

    def exit(self, returncode: int) -> Exit:
        """Return how the child ended, with this code."""
        why = self._stopping
        if self.exited is None and self.start is not None and self.start["event"] != "executed":
            why = {"reason": self.start["event"], **self.start}
        why = why or {}
        return Exit(
            code=None if returncode < 0 else returncode,
            signal=-returncode if returncode < 0 else None,
            reason=str(why.get("reason", "child-ended")),
            text=str(why.get("text", "the child ended")),
        )

    def _take(self, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "started":
            self.id, self.pid = event.get("id"), event.get("pid")
        elif kind in ("executed", "not-executed", "waiting", "refused", "failed"):
            self.start = event
        elif kind == "ready":
            self.ready = True
        elif kind == "stopping" and self._stopping is None:
            self._stopping = event
        elif kind == "exited":
            self.exited = event
