"""A lease for event loops."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional

from ._errors import CallTimeout, Decline
from ._lease_base import Entry, LeaseBase
from ._options import Time, duration

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from ._front import Settle

_log = logging.getLogger("nostray")


class AsyncLease(LeaseBase):
    """A hold on one child that all holders of a key share. It may be used in several event loops, also at the same time.

    Handlers are functions or coroutine functions, and run in the event loop in which they are registered.
    """

    async def call(self, method: str, params: Any = None, timeout: Optional[float] = None) -> Any:
        """Make a call, and return its result. If there is no child, the call waits for the next one. Raises what ``Lease.call`` raises.

        If the task is cancelled, the call is cancelled, and the child is told so.
        """
        answer, settle = _answer()
        number = self._front.request(method, params, settle)
        try:
            return await asyncio.wait_for(answer, timeout)
        except asyncio.TimeoutError:
            self._front.cancel(number)
            raise CallTimeout(f"no answer to {method} within {timeout} s; the call was cancelled") from None
        except asyncio.CancelledError:
            self._front.cancel(number)
            raise

    async def ready(self, timeout: Optional[float] = None) -> None:
        """Wait until the child is there, and an MCP server has answered the handshake."""
        try:
            await asyncio.wait_for(self._when(self._front.is_ready), timeout)
        except asyncio.TimeoutError:
            raise CallTimeout(f"the child is not there within {timeout} s") from None

    async def restart(self, wait: Time = 30) -> None:
        """Replace the child by a new one, for all its holders, when nothing is in flight. ``wait`` says how long to wait for that."""
        await self.ready()
        before = self.generation
        await asyncio.get_running_loop().run_in_executor(None, self._front.restart, duration(wait))
        await self._when(lambda: self.generation > before)

    def close(self) -> None:
        """Release the child. Calls in flight raise ``LeaseError``, and no handler begins after this; those that wait are cancelled.

        May be called again, from any thread, and by a handler.
        """
        self._front.close()
        for jobs in tuple(self._jobs.values()):
            jobs.cancel()

    async def aclose(self) -> None:
        """The same, for those who await it."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()

    async def _when(self, met: Callable[[], bool]) -> None:
        self._front.check_process()
        answer, settle = _answer()
        self._front.when(met, settle)
        await answer

    def _prepare(self) -> None:
        self._jobs: dict[tuple[str, asyncio.AbstractEventLoop], _LoopJobs] = {}

    def _place(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def _submit(self, kind: Literal["note", "hook", "request"], entry: Entry, job: Callable[[], Any]) -> None:
        assert entry.loop is not None
        place = (kind, entry.loop)
        self._jobs.setdefault(place, _LoopJobs(entry.loop, in_order=kind != "request")).submit(job)

    def _ask(self, number: Any, method: str, params: Any, entries: list[Entry]) -> None:
        for index, entry in enumerate(entries):
            if entry.loop is not None and not entry.loop.is_closed():
                self._submit("request", entry, partial(self._answer, number, method, params, entries[index:]))
                return
        self._reply_declined(number, method)

    async def _answer(self, number: Any, method: str, params: Any, entries: list[Entry]) -> None:
        loop = asyncio.get_running_loop()
        for index, entry in enumerate(entries):
            if self._front.closed:
                return
            if entry.loop is not loop:
                self._ask(number, method, params, entries[index:])
                return
            try:
                result = entry.run(method, params)
                if inspect.isawaitable(result):
                    result = await result
            except Decline:
                continue
            except asyncio.CancelledError:
                self._reply_failed(number, RuntimeError("the handler was cancelled"))
                raise
            except Exception as error:
                self._reply_failed(number, error)
            else:
                self._reply(number, result)
            return
        self._reply_declined(number, method)


def _answer() -> tuple[asyncio.Future[Any], Settle]:
    """Return what a task of this event loop awaits, and how it is settled from the I/O thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def deliver(result: Any, error: Optional[Exception]) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def settle(result: Any, error: Optional[Exception]) -> None:
        try:
            loop.call_soon_threadsafe(deliver, result, error)
        except RuntimeError:
            # The loop is closed, so no task waits.
            pass

    return future, settle


class _LoopJobs:
    """What handlers have to do in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, in_order: bool) -> None:
        self._loop = loop
        self._in_order = in_order
        self._jobs: deque[Callable[[], Any]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, job: Callable[[], Any]) -> None:
        """Have this done. From any thread; a loop that is closed does nothing any more."""
        self._jobs.append(job)
        self._soon(self._start)

    def cancel(self) -> None:
        """Drop what has not begun, and cancel what has. From any thread."""
        self._jobs.clear()
        self._soon(self._cancel, asyncio.current_task() if _running() is self._loop else None)

    def _start(self) -> None:
        if self._jobs and not (self._in_order and self._tasks):
            task = self._loop.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _task: self._start())

    def _cancel(self, but: Optional[asyncio.Task[Any]]) -> None:
        for task in self._tasks - {but}:
            task.cancel()

    async def _work(self) -> None:
        while self._jobs:
            job = self._jobs.popleft()
            try:
                result = job()
                if inspect.isawaitable(result):
                    await result
            except Exception:
                _log.exception("a handler of a lease failed")
            if not self._in_order:
                return

    def _soon(self, what: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *args)
        except RuntimeError:
            self._jobs.clear()


def _running() -> Optional[asyncio.AbstractEventLoop]:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
