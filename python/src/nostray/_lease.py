"""A lease for threads."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional

from ._errors import CallTimeout, Decline
from ._lease_base import Entry, LeaseBase
from ._options import Time, duration
from ._workers import Workers

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

# How long close() waits for a handler that runs in another thread. The handler may wait for the thread that closes.
_PATIENCE = 1.0
# Requests of the child that are handled at the same time.
_MAX_REQUESTS = 64


class Lease(LeaseBase):
    """A hold on one child that all holders of a key share. Every method may be called from any thread.

    Handlers run in threads of the lease: those for notifications one after the other, hooks likewise, and each request by itself.
    """

    def call(self, method: str, params: Any = None, timeout: Optional[float] = None) -> Any:
        """Make a call, and return its result. If there is no child, the call waits for the next one.

        Raises ``CallError`` if the answer is an error, ``ChildDied`` if the child ended during the call, ``CallTimeout`` (a
        ``TimeoutError``) if there is no answer within ``timeout`` seconds, and ``LeaseError`` if the lease is over.
        """
        answer = _Answer()
        number = self._front.request(method, params, answer.settle)
        try:
            in_time = answer.wait(timeout)
        except BaseException:
            # A signal handler raised, as Ctrl-C does.
            self._front.cancel(number)
            raise
        if not in_time and self._front.cancel(number):
            raise CallTimeout(f"no answer to {method} within {timeout} s; the call was cancelled")
        return answer.get()

    def ready(self, timeout: Optional[float] = None) -> None:
        """Wait until the child is there, and an MCP server has answered the handshake."""
        self._wait(self._front.is_ready, timeout)

    def restart(self, wait: Time = 30) -> None:
        """Replace the child by a new one, for all its holders, when nothing is in flight. ``wait`` says how long to wait for that."""
        self.ready()
        before = self.generation
        self._front.restart(duration(wait))
        self._wait(lambda: self.generation > before, None)

    def close(self) -> None:
        """Release the child. Calls in flight raise ``LeaseError``, and no handler begins after this.

        May be called again, from any thread, and by a handler. Waits for a handler that is running, but not longer than a second.
        """
        self._front.close()
        # In a forked process there is nothing to wait for. In the I/O thread, where the garbage collector may have called this, waiting
        # would delay all leases.
        if self._front.pid == os.getpid():
            patience = 0 if threading.current_thread() is self._front.io else _PATIENCE
            for workers in (self._notes, self._turns, self._requests):
                workers.clear(patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()

    def _wait(self, met: Callable[[], bool], timeout: Optional[float]) -> None:
        self._front.check_process()
        answer = _Answer()
        self._front.when(met, answer.settle)
        if not answer.wait(timeout):
            raise CallTimeout(f"the child is not there within {timeout} s")
        answer.get()

    def _prepare(self) -> None:
        # A hook may wait for a notification, and any of them may make a call.
        self._notes, self._turns, self._requests = Workers(1), Workers(1), Workers(_MAX_REQUESTS)

    def _place(self) -> None:
        return None

    def _submit(self, kind: Literal["note", "hook"], entry: Entry, job: Callable[[], Any]) -> None:
        (self._notes if kind == "note" else self._turns).submit(job)

    def _ask(self, number: Any, method: str, params: Any, entries: list[Entry]) -> None:
        if entries:
            self._requests.submit(lambda: self._answer(number, method, params, entries))
        else:
            self._reply_declined(number, method)

    def _answer(self, number: Any, method: str, params: Any, entries: list[Entry]) -> None:
        for entry in entries:
            if self._front.closed:
                return
            try:
                result = entry.run(method, params)
            except Decline:
                continue
            except Exception as error:
                self._reply_failed(number, error)
            else:
                self._reply(number, result)
            return
        self._reply_declined(number, method)


class _Answer:
    """What a thread waits for."""

    def __init__(self) -> None:
        # The cheapest thing to wait for: it is held until there is an answer.
        self._lock = threading.Lock()
        self._lock.acquire()
        self._result: Any = None
        self._error: Optional[Exception] = None

    def settle(self, result: Any, error: Optional[Exception]) -> None:
        """Called once."""
        self._result, self._error = result, error
        self._lock.release()

    def wait(self, timeout: Optional[float]) -> bool:
        """Whether it is there in time."""
        if self._lock.acquire(timeout=-1 if timeout is None else max(0, timeout)):
            self._lock.release()
            return True
        return False

    def get(self) -> Any:
        """Return or raise it, once it is there."""
        self.wait(None)
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            # The error refers to this frame and those of its callers, and so to the lease: a cycle would keep the lease open.
            del error
