"""``nostray.asyncio``: processes of event loops whose tree ends with the host."""

from __future__ import annotations

import asyncio
import asyncio.subprocess
from typing import Any

import pytest

import nostray
import nostray.asyncio
from conftest import Scene

create = nostray.asyncio.create_subprocess_exec
PIPE = asyncio.subprocess.PIPE


def test_output_code_and_reason_are_the_child_s(scene: Scene) -> None:
    async def main() -> None:
        process = await create("cat", stdin=PIPE, stdout=PIPE)
        assert process.exit is None and process.returncode is None and process.child_pid is not None
        much = b"x" * 1_000_000
        assert await process.communicate(much) == (much, None)
        assert process.returncode == 0 and process.exit == nostray.Exit(0, None, "stdin-closed", "stdin was closed")
        for code, expected in (("exit 137", 137), ("kill -9 $$", -9)):
            process = await create("sh", "-c", code)
            assert await process.wait() == expected == process.returncode
        shell = await nostray.asyncio.create_subprocess_shell("echo $0; exit 3", stdout=PIPE)
        assert (await shell.communicate())[0] == b"/bin/sh\n" and shell.returncode == 3

    asyncio.run(main())


@pytest.mark.parametrize("words", [["no-such-program"], ["/etc/passwd"], ["/no/such/program", "x"]])
def test_a_program_that_cannot_be_executed_raises_what_asyncio_raises(words: list[str]) -> None:
    async def error_of(create: Any) -> Any:
        try:
            await create(*words)
        except OSError as error:
            return type(error), error.errno, error.filename, str(error)

    async def main() -> None:
        assert await error_of(create) == await error_of(asyncio.create_subprocess_exec)

    asyncio.run(main())


def test_kill_ends_the_tree_and_terminate_reaches_the_child(scene: Scene) -> None:
    async def main() -> None:
        process = await create("sh", "-c", "sleep 100 & trap '' TERM; echo up; while :; do sleep 1; done", stdout=PIPE)
        assert process.stdout is not None and await process.stdout.readline() == b"up\n"
        process.kill()
        assert await process.wait() == -9
        process.kill()
        process = await create("sleep", "100")
        process.terminate()
        assert await process.wait() == -15 and process.exit is not None and process.exit.reason == "signal"

    asyncio.run(main())
    scene.empty()


def test_ready_and_slots_work(scene: Scene) -> None:
    async def main() -> None:
        code = "sleep 0.1; echo listening >&2; exec sleep 100"
        process = await create("sh", "-c", code, stderr=nostray.DEVNULL, ready={"line": "listening"}, slot="memory")
        assert all(await asyncio.gather(process.wait_ready(), process.wait_ready()))
        with pytest.raises(nostray.SlotTaken):
            await create("true", slot="memory", if_taken="fail", stderr=nostray.DEVNULL)
        process.kill()
        await process.wait()

    asyncio.run(main())


def test_a_task_that_is_cancelled_while_its_process_starts_leaves_nothing(scene: Scene) -> None:
    async def main() -> None:
        for delay in range(20):
            task = asyncio.ensure_future(create("sleep", "1000", term_grace=0, eof_grace=0))
            await asyncio.sleep(delay / 1000)
            if not task.cancel():
                process = await task
                process.kill()
                await process.wait()
                continue
            try:
                process = await task
                process.kill()
                await process.wait()
            except asyncio.CancelledError:
                pass

    asyncio.run(main())
    scene.empty()


def test_a_loop_that_is_closed_while_a_process_runs_leaves_nothing(scene: Scene) -> None:
    host = scene.host(
        """
        import asyncio, sys
        import nostray.asyncio
        async def main():
            await nostray.asyncio.create_subprocess_exec("sleep", "1000", stdin=asyncio.subprocess.PIPE, eof_grace=0, term_grace=0)
        asyncio.run(main())
        print("over", flush=True)
        """
    )
    assert host.line() == "over"
    scene.empty()


def test_other_event_loops_work(scene: Scene) -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not here")

    async def main() -> None:
        process = await create("cat", stdin=PIPE, stdout=PIPE)
        assert await process.communicate(b"x") == (b"x", None) and process.returncode == 0
        with pytest.raises(FileNotFoundError):
            await create("/no/such/program")
        process = await create("sleep", "100")
        process.kill()
        assert await process.wait() == -9
        async with nostray.AsyncLease(["cat"], key="cat", protocol="jsonrpc") as lease:
            await lease.ready(20)

    uvloop.run(main())
