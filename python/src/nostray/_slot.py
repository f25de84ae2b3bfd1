"""For programs that must be alone: with a database, a port, a profile."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import tempfile
import threading
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional

from ._errors import NostrayError, SlotTaken
from ._options import Time, duration
from ._program import find_program
from ._status import objects

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_log = logging.getLogger("nostray")

_TAKEN = 75


class Slot:
    """Holds a name that at most one process or tree of this user holds, until it is released or this process ends, however it ends.

    ``if_taken`` says what to do if the slot is taken: ``wait`` until it is free (not longer than ``timeout``), ``fail``, or ``replace``,
    which asks the holder to hand over. If this holder is asked to hand over, ``on_asked(text)`` is called in a thread; it should have the
    slot released soon. Without it, this process gets SIGTERM. With ``starting``, it is not asked before ``ready()``.
    """

    def __init__(
        self,
        name: str,
        if_taken: Literal["wait", "fail", "replace"] = "wait",
        *,
        timeout: Optional[Time] = None,
        starting: bool = False,
        on_asked: Optional[Callable[[str], Any]] = None,
    ) -> None:
        """Take the slot. Raises ``SlotTaken`` if it is not to be had."""
        self.name = name
        self._pid = os.getpid()
        self._on_asked = on_asked
        self._held = False
        options = ["--if-taken", if_taken]
        if timeout is not None:
            options += ["--wait-timeout", duration(timeout)]
        if starting:
            options.append("--unready")
        # Its shutdown reaches the holder also if a forked process has a copy of it.
        self._socket, theirs = socket.socketpair()
        with theirs, tempfile.TemporaryFile() as said:
            try:
                self._holder = subprocess.Popen(
                    [find_program(), "slot", "hold", "--json", *options, "--", name],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=said,
                    # Ctrl-C is for this program, which may go on.
                    start_new_session=True,
                )
            except BaseException:
                self._socket.close()
                raise
            theirs.close()
            self._lines = self._socket.makefile("rb")
            try:
                line = self._lines.readline()
            except BaseException:
                # A signal handler raised, as Ctrl-C does.
                self.release()
                self._close()
                raise
            if not line:
                self.release()
                self._close()
                said.seek(0)
                text = said.read().decode(errors="replace").strip()
                raise (SlotTaken if self._holder.returncode == _TAKEN else NostrayError)(
                    text or f"the slot {name} was not to be had"
                )
        self._held = True
        threading.Thread(target=self._listen, name="nostray-slot", daemon=True).start()

    @property
    def held(self) -> bool:
        """Whether this process holds the slot."""
        return self._held and self._pid == os.getpid()

    def ready(self) -> None:
        """From now on this holder may be asked to hand over; for ``starting=True``."""
        if self.held:
            self._socket.sendall(b"ready\n")

    def release(self) -> None:
        """Give the slot to the next caller. May be called again, and from any thread."""
        if self._pid != os.getpid():
            return
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._holder.wait()
        self._held = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.release()

    def _listen(self) -> None:
        for line in self._lines:
            for event in objects(line):
                if event.get("event") == "asked":
                    self._asked(str(event.get("text", "")))
        self._held = False
        self._close()

    def _close(self) -> None:
        self._lines.close()
        self._socket.close()

    def _asked(self, text: str) -> None:
        if self._on_asked is None:
            os.kill(self._pid, signal.SIGTERM)
            return
        try:
            self._on_asked(text)
        except Exception:
            _log.exception("the callback of the slot %s failed", self.name)
