"""One child for all leases of a key: calls, errors, cancelling, generations, and every way to release it."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import nostray
from conftest import BRIDGE, Scene, until


def bridge(key: str = "memory", **options: Any) -> nostray.Lease:
    return nostray.Lease(BRIDGE, key=key, protocol="jsonrpc", **options)


def test_leases_of_a_key_share_one_child_and_leases_of_another_key_do_not(scene: Scene) -> None:
    with bridge() as first, bridge() as second, bridge("other") as other:
        assert first.call("pid") == second.call("pid") != other.call("pid")
        assert sorted(scene.servers()) == sorted({first.call("pid"), other.call("pid")})
        assert first.generation == second.generation == 1 and first.id == second.id and first.alone is None


def test_without_a_key_leases_share_by_command_directory_and_environment(scene: Scene, tmp_path: Path) -> None:
    with nostray.Lease(BRIDGE, protocol="jsonrpc") as one, nostray.Lease(BRIDGE, protocol="jsonrpc") as same:
        with nostray.Lease(BRIDGE, protocol="jsonrpc", cwd=tmp_path) as elsewhere:
            assert one.call("pid") == same.call("pid") != elsewhere.call("pid")


def test_a_call_returns_the_result_or_raises_the_error_of_the_child(scene: Scene) -> None:
    with bridge() as lease:
        for value in ({"text": "ä\u2028\U0001f600 \ud800"}, [1, 2.5, None, True], []):
            assert lease.call("echo", value) == (value or {})
        with pytest.raises(nostray.CallError) as failed:
            lease.call("fail")
        assert (failed.value.code, failed.value.message, failed.value.data) == (7, "as asked", {"more": 1})
        assert not isinstance(failed.value, nostray.ChildDied) and str(failed.value) == "as asked (7)"
        for unsendable in ({"x": object()}, {"x": float("nan")}):
            with pytest.raises((TypeError, ValueError)):
                lease.call("echo", unsendable)
        assert lease.call("echo", [3]) == [3]


def test_a_call_that_takes_too_long_raises_and_the_child_is_told(scene: Scene) -> None:
    with bridge() as lease, nostray.Lease(BRIDGE, key="mcp") as mcp:
        for each, told in ((lease, "jsonrpc"), (mcp, "mcp")):
            each.ready(20)
            begun = time.monotonic()
            with pytest.raises(TimeoutError) as late:
                each.call("hang", timeout=0.2)
            assert isinstance(late.value, nostray.CallTimeout) and 0.15 < time.monotonic() - begun < 5
            until(lambda each=each, told=told: each.call("cancelled") == [told], "the child is told")


def test_a_child_that_dies_is_replaced_once_for_all_and_calls_in_between_wait(scene: Scene) -> None:
    leases = [bridge() for _ in range(3)]
    first = {lease.call("pid") for lease in leases}
    assert len(first) == 1
    scene.kill_server(first.pop())
    second = {lease.call("pid", timeout=30) for lease in leases}
    assert len(second) == 1 and scene.starts() == [*scene.starts()[:1], second.pop()]
    assert {lease.generation for lease in leases} == {2}
    for lease in leases:
        lease.close()


def test_a_call_in_flight_gets_the_cause_of_death(scene: Scene) -> None:
    with bridge() as lease:
        with pytest.raises(nostray.ChildDied) as died:
            lease.call("die", {"code": 9})
        assert "code 9" in died.value.cause and died.value.stderr == ["dying as asked"]
        assert lease.call("echo", [1]) == [1]


def test_without_respawn_the_lease_is_over_with_the_child(scene: Scene) -> None:
    with bridge(respawn=False) as lease:
        with pytest.raises((nostray.LeaseError, nostray.ChildDied)):
            lease.call("die")
        until(lambda: lease.ended, "the lease is over")
        with pytest.raises(nostray.LeaseError, match="over"):
            lease.call("pid")


def test_restart_replaces_the_child_and_hooks_run_once_for_each_generation(scene: Scene) -> None:
    with bridge() as lease, bridge() as other:
        seen: list[int] = []
        others: list[int] = []
        lease.on_generation(seen.append)
        before = lease.call("pid")
        other.ready()
        other.on_generation(others.append)
        lease.restart()
        assert lease.generation == 2 and lease.call("pid") != before
        scene.kill_server(lease.call("pid"))
        lease.call("pid")
        until(lambda: seen == others == [1, 2, 3], f"each hook has run for each generation: {seen} {others}")


def test_a_hook_may_call_the_child(scene: Scene) -> None:
    told: list[Any] = []
    with bridge() as lease:
        lease.on_generation(lambda generation: told.append(lease.call("echo", [generation])))
        until(lambda: told == [[1]])
        lease.restart()
        until(lambda: told == [[1], [2]])


def test_an_mcp_lease_shakes_hands_by_itself_also_with_the_next_child(scene: Scene) -> None:
    with nostray.Lease(BRIDGE, client_info={"name": "host", "version": "2"}, protocol_version="2025-03-26") as lease:
        assert lease.call("echo", {"a": 1}) == {"a": 1}
        assert lease.server is not None and lease.server["protocolVersion"] == "2025-03-26"
        scene.kill_server(lease.call("pid"))
        assert lease.call("echo", {"a": 2}) == {"a": 2} and lease.generation == 2


def test_a_program_that_does_not_exist_fails_each_call_and_not_the_host(scene: Scene) -> None:
    with nostray.Lease("/no/such/server", key="none", stderr=nostray.DEVNULL) as lease:
        for _ in range(2):
            with pytest.raises((nostray.CallError, nostray.LeaseError)):
                lease.call("tools/list", timeout=20)
    with nostray.Lease(["sh", "-c", "exit 1"], key="dies", stderr=nostray.DEVNULL, max_failures="2/1m") as lease:
        with pytest.raises((nostray.CallError, nostray.LeaseError)):
            lease.ready(20)


def test_closing_twice_and_calling_afterwards_is_an_error_of_its_own(scene: Scene) -> None:
    lease = bridge()
    lease.ready(20)
    lease.close()
    lease.close()
    assert lease.ended == "it was closed"
    for action in (lambda: lease.call("pid"), lambda: lease.notify("x"), lambda: lease.ready(), lambda: lease.restart()):
        with pytest.raises(nostray.LeaseError, match="closed"):
            action()
    scene.no_server()


def test_closing_settles_calls_in_flight_of_other_threads(scene: Scene) -> None:
    lease = bridge()
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            lease.call("hang")
        except nostray.LeaseError as error:
            errors.append(error)

    threads = [threading.Thread(target=wait) for _ in range(5)]
    lease.ready(20)
    for thread in threads:
        thread.start()
    until(lambda: len(lease._front._calls) == 5, "all wait")
    lease.close()
    for thread in threads:
        thread.join(10)
    assert len(errors) == 5


def test_the_last_lease_that_closes_ends_the_child_and_one_that_is_left_does_not(scene: Scene) -> None:
    first, second = bridge(), bridge()
    pid = first.call("pid")
    first.close()
    assert second.call("pid") == pid
    second.close()
    scene.empty()
    assert scene.starts() == [pid]


def test_a_dropped_lease_is_released_without_close(scene: Scene) -> None:
    lease = bridge()
    lease.ready(20)
    del lease
    scene.empty()


def test_a_lease_whose_handlers_refer_to_it_is_released_by_the_garbage_collector(scene: Scene) -> None:
    lease = bridge()
    lease.on_request(None, lambda method, params: lease.call(method, params))
    lease.on_notification(None, lambda method, params: lease.notify(method))
    lease.on_generation(lambda generation: lease.generation)
    lease.ready(20)
    assert lease.call("ask", {"method": "echo", "params": [1]}) == {"result": [1]}
    del lease
    # The thread that has handled the request has let go of it a moment later.
    until(lambda: (gc.collect(), not scene.processes())[1], "nothing is left")


def test_a_front_that_is_killed_ends_its_lease_alone(scene: Scene) -> None:
    with bridge() as first, bridge() as second:
        pid = first.call("pid")
        assert second.call("pid") == pid
        os.kill(first._front.front_pid, signal.SIGKILL)
        until(lambda: first.ended, "the lease is over")
        with pytest.raises(nostray.LeaseError):
            first.call("pid")
        assert second.call("pid") == pid


def test_a_lease_that_a_thread_opened_outlives_that_thread(scene: Scene) -> None:
    opened: list[nostray.Lease] = []
    thread = threading.Thread(target=lambda: opened.append(bridge()))
    thread.start()
    thread.join()
    with opened[0] as lease:
        lease.ready(20)
        assert lease.call("echo", [1]) == [1]


def test_many_threads_call_at_once_and_each_gets_its_own_answer(scene: Scene) -> None:
    with bridge() as lease:
        wrong: list[Any] = []

        def work(name: int) -> None:
            for number in range(50):
                if lease.call("echo", [name, number]) != [name, number]:
                    wrong.append((name, number))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong


def test_options_are_checked_before_something_starts(scene: Scene) -> None:
    with pytest.raises(TypeError, match="no_such"):
        nostray.Lease(BRIDGE, no_such=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="protocol"):
        nostray.Lease(BRIDGE, protocol="soap")  # type: ignore[arg-type]
    assert not scene.processes()


def test_a_session_and_labels_find_the_lease(scene: Scene) -> None:
    with bridge(session="chat-17", labels={"task": "42"}) as lease, bridge(session="chat-18") as other:
        lease.ready(20)
        other.ready(20)
        nostray.Session("chat-17").close()
        until(lambda: lease.ended, "the lease of the session is over")
        assert other.call("pid") == scene.one_server()
