"""``asyncio.create_subprocess_exec`` and ``_shell`` whose child is contained. Works in every event loop that has ``subprocess_exec``."""

from __future__ import annotations

import asyncio
import asyncio.subprocess
import os
from signal import SIGKILL
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._popen import Plan
from ._status import Exit

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Word
    from ._popen import PopenOptions

DEVNULL, PIPE, STDOUT = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT


class Process(asyncio.subprocess.Process):
    """An ``asyncio.subprocess.Process``; ``child_pid``, ``exit`` and ``kill()`` are those of ``nostray.Popen``."""

    _plan: Plan

    @property
    def returncode(self) -> Optional[int]:
        code = super().returncode
        return None if code is None else self._plan.status.returncode(code)

    @property
    def child_pid(self) -> Optional[int]:
        """The child's own pid. None while it waits for its slot, and with ``isolate="pid"``."""
        self._plan.status.read()
        return self._plan.status.pid

    @property
    def exit(self) -> Optional[Exit]:
        """How the child ended, and why. None while something of its tree is left."""
        code = self.returncode
        return None if code is None else self._plan.status.exit(code)

    async def wait(self) -> int:
        """Wait until nothing is left of the tree, and return the child's code."""
        return self._plan.status.returncode(await super().wait())

    async def wait_ready(self) -> bool:
        """Wait until the child is ready, as ``ready=`` defines it. False if it ended before."""
        status = self._plan.status
        await _until(self._plan, lambda: status.ready)
        return status.ready

    def send_signal(self, signal: int) -> None:
        """Send a signal to the child. SIGKILL ends its whole tree."""
        if signal == SIGKILL:
            self.kill()
        else:
            super().send_signal(signal)

    def kill(self) -> None:
        """End the whole tree at once."""
        if self.returncode is None:
            front = super().send_signal

            def signal_front(signal: int) -> None:
                try:
                    front(signal)
                except ProcessLookupError:
                    pass

            self._plan.kill(signal_front)


async def create_subprocess_exec(
    program: Word,
    *args: Word,
    limit: int = 2**16,
    **options: Unpack[PopenOptions],
) -> Process:
    """``asyncio.create_subprocess_exec`` with the child's tree tied to this process."""
    return await _create([program, *args], limit, {**options})


async def create_subprocess_shell(
    cmd: Word,
    *,
    limit: int = 2**16,
    **options: Unpack[PopenOptions],
) -> Process:
    """``asyncio.create_subprocess_shell`` with the child's tree tied to this process."""
    return await _create([cmd], limit, {"shell": True, **options})


async def _create(argv: list[Word], limit: int, arguments: dict[str, Any]) -> Process:
    loop = asyncio.get_running_loop()
    # The event loop's own defaults are pipes.
    arguments = {"stdin": None, "stdout": None, "stderr": None, **arguments}
    plan = Plan(argv, arguments)

    def protocol() -> asyncio.subprocess.SubprocessStreamProtocol:
        return asyncio.subprocess.SubprocessStreamProtocol(limit=limit, loop=loop)

    try:
        transport, streams = await loop.subprocess_exec(protocol, *map(os.fspath, plan.words), **arguments)
    finally:
        plan.status.close_write_end()
    process = Process(transport, streams, loop)
    process._plan = plan
    try:
        await _until(plan, plan.has_start)
        problem = plan.problem()
        if problem is not None:
            await process.wait()
            raise problem
    except BaseException:
        # Also if this task is cancelled. It ends the front, and with it the tree.
        transport.close()
        # As asyncio does for a start that fails. An event loop that is closed before it has reaped the front would leave a zombie.
        await asyncio.subprocess.Process.wait(process)
        raise
    return process


async def _until(plan: Plan, met: Callable[[], bool]) -> None:
    """Wait until this is met, or cannot be met any more."""
    loop, status = asyncio.get_running_loop(), plan.status
    while status.read() and not met():
        # A descriptor of its own: an event loop has one reader for each.
        fd = os.dup(status.fileno())
        readable = asyncio.Event()
        loop.add_reader(fd, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)
