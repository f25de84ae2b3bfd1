"""``AsyncLease``: calls, cancelling and handlers in event loops, several of them, and those that are closed too early."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

import nostray
from conftest import BRIDGE, DEADLINE, Scene, until


def bridge(**options: Any) -> nostray.AsyncLease:
    return nostray.AsyncLease(BRIDGE, key="memory", protocol="jsonrpc", **options)


async def soon(met: Any) -> None:
    """Wait until this is true, and let the event loop run meanwhile."""
    end = time.monotonic() + DEADLINE
    while not met():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def test_calls_errors_timeouts_and_restarts_work_as_those_of_a_lease(scene: Scene) -> None:
    async def main() -> None:
        async with bridge() as lease, bridge() as other:
            await lease.ready(20)
            assert await asyncio.gather(*(lease.call("echo", [n]) for n in range(50))) == [[n] for n in range(50)]
            with pytest.raises(nostray.CallError, match="as asked"):
                await lease.call("fail")
            with pytest.raises(nostray.CallTimeout):
                await lease.call("hang", timeout=0.1)
            pid = await lease.call("pid")
            assert await other.call("pid") == pid
            with pytest.raises(nostray.ChildDied):
                await lease.call("die")
            assert await other.call("pid") != pid
            await lease.restart()
            assert lease.generation == 3
        with pytest.raises(nostray.LeaseError):
            await lease.call("pid")
        with pytest.raises(nostray.LeaseError):
            await lease.ready()
        lease.close()
        await lease.aclose()

    asyncio.run(main())
    scene.empty()


def test_a_cancelled_task_cancels_its_call(scene: Scene) -> None:
    async def main() -> None:
        async with bridge() as lease:
            await lease.ready(20)
            task = asyncio.ensure_future(lease.call("hang"))
            await lease.call("pid")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while await lease.call("cancelled") != ["jsonrpc"]:
                await asyncio.sleep(0.01)
            assert not lease._front._calls

    asyncio.run(main())


def test_a_task_that_is_cancelled_in_the_middle_of_a_connect_leaves_nothing(scene: Scene) -> None:
    async def connect() -> None:
        async with nostray.AsyncLease(BRIDGE) as lease:
            await lease.ready()
            await lease.call("hang")

    async def main() -> None:
        for delay in (0, 0, 0.001, 0.01, 0.03, 0.1, 0.2):
            task = asyncio.ensure_future(connect())
            await asyncio.sleep(delay)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    scene.empty()


def test_handlers_run_in_the_loop_that_registered_them_functions_and_coroutines_in_order(scene: Scene) -> None:
    async def main() -> None:
        loop, seen = asyncio.get_running_loop(), []
        async with bridge() as lease:

            @lease.on_notification("events.notify")
            async def slowly(method: str, params: Any) -> None:
                await asyncio.sleep(0)
                seen.append((asyncio.get_running_loop() is loop, params["number"]))

            @lease.on_notification(None)
            def quickly(method: str, params: Any) -> None:
                seen.append((asyncio.get_running_loop() is loop, "quick"))

            @lease.on_request("ask.coroutine")
            async def answer(method: str, params: Any) -> Any:
                return [method, await lease.call("echo", params)]

            @lease.on_request(None)
            def decline(method: str, params: Any) -> Any:
                raise nostray.Decline

            @lease.on_request("fails")
            async def fail(method: str, params: Any) -> Any:
                raise ValueError("as asked")

            generations: list[int] = []
            lease.on_generation(generations.append)
            await lease.call("notes", {"count": 20})
            await soon(lambda: len(seen) == 40)
            assert [number for _, number in seen if number != "quick"] == list(range(20)) and all(here for here, _ in seen)
            assert await lease.call("ask", {"method": "ask.coroutine", "params": [1]}) == {"result": ["ask.coroutine", [1]]}
            assert (await lease.call("ask", {"method": "unknown"}))["error"]["code"] == -32601
            assert (await lease.call("ask", {"method": "fails"}))["error"] == {"code": -32603, "message": "as asked"}
            await lease.restart()
            await soon(lambda: generations == [1, 2])

    asyncio.run(main())


def test_one_lease_serves_several_event_loops_at_once(scene: Scene) -> None:
    lease = bridge()
    wrong: list[Any] = []

    def run(name: int) -> None:
        async def main() -> None:
            lease.on_request(f"who.{name}", lambda method, params: name)
            for number in range(20):
                if await lease.call("echo", [name, number]) != [name, number]:
                    wrong.append(number)
            if await lease.call("ask", {"method": f"who.{name}"}) != {"result": name}:
                wrong.append(name)

        asyncio.run(main())

    threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    lease.close()
    scene.empty()


def test_a_request_goes_on_to_a_handler_in_another_loop_and_past_a_closed_one(scene: Scene) -> None:
    lease = bridge()

    def decline(method: str, params: Any) -> Any:
        raise nostray.Decline

    async def register() -> None:
        lease.on_request("who", lambda method, params: "a loop that is closed")

    asyncio.run(register())
    declining, over = asyncio.new_event_loop(), threading.Event()
    declining.call_soon(lambda: lease.on_request("who", decline))
    thread = threading.Thread(target=declining.run_forever)
    thread.start()
    until(lambda: len(lease._request_handlers) == 2)

    async def main() -> None:
        lease.on_request("who", lambda method, params: "this loop")
        assert await lease.call("ask", {"method": "who"}) == {"result": "this loop"}
        over.set()

    asyncio.run(main())
    declining.call_soon_threadsafe(declining.stop)
    thread.join(20)
    declining.close()
    lease.close()
    assert over.is_set()


def test_a_loop_that_is_lost_with_calls_in_flight_harms_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    lease = bridge()

    async def abandon() -> None:
        await lease.ready(20)

        @lease.on_notification(None)
        async def told(method: str, params: Any) -> None:
            await asyncio.sleep(3600)

        lease.on_request("who", told)
        lease.notify("x")

    for _ in range(3):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(abandon())
        tasks = [loop.create_task(lease.call("slow", {"seconds": 0.1})), loop.create_task(lease.call("notes", {"count": 3}))]
        loop.run_until_complete(asyncio.sleep(0.01))
        for task in tasks:
            # As if the loop were torn down in the middle: the tasks never run again.
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    async def after() -> Any:
        return await lease.call("echo", ["after"])

    assert asyncio.run(after()) == ["after"]
    lease.close()
    scene.empty()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_no_handler_runs_after_close_and_those_that_wait_are_cancelled(scene: Scene) -> None:
    async def main() -> None:
        lease, seen, cancelled = bridge(), [], []

        @lease.on_notification(None)
        async def wait(method: str, params: Any) -> None:
            seen.append(params)
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.append(params)
                raise

        await lease.call("notes", {"count": 5})
        await soon(lambda: seen)
        lease.close()
        await soon(lambda: cancelled)
        assert len(seen) == 1

    asyncio.run(main())
    scene.empty()


def test_a_dropped_lease_is_released(scene: Scene) -> None:
    async def main() -> None:
        lease = bridge()
        await lease.ready(20)
        del lease

    asyncio.run(main())
    scene.empty()
