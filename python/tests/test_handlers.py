"""What the child says by itself: notifications in order, requests to several handlers, and none after close."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

import nostray
from conftest import BRIDGE, Scene, until


@pytest.fixture
def lease(scene: Scene) -> Any:
    with nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc") as lease:
        yield lease


def test_notifications_come_in_order_to_every_handler_of_their_method(lease: nostray.Lease) -> None:
    some: list[Any] = []
    every: list[Any] = []
    lease.on_notification("events.notify", lambda method, params: some.append(params["number"]))
    lease.on_notification(None, lambda method, params: every.append((method, params["number"])))
    lease.on_notification("other", lambda method, params: some.append("other"))
    lease.call("notes", {"count": 200})
    until(lambda: len(some) == len(every) == 200)
    assert some == list(range(200)) and every == [("events.notify", number) for number in some]


def test_a_notification_handler_that_fails_or_calls_stops_no_other(lease: nostray.Lease, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []

    @lease.on_notification("events.notify")
    def fail(method: str, params: Any) -> None:
        raise RuntimeError("as asked")

    @lease.on_notification("events.notify")
    def call(method: str, params: Any) -> None:
        seen.append(lease.call("echo", [params["number"]]))

    with caplog.at_level(logging.ERROR, "nostray"):
        lease.call("notes", {"count": 3})
        until(lambda: seen == [[0], [1], [2]])
    assert "as asked" in caplog.text


def test_requests_are_answered_by_the_first_handler_that_does_not_decline(lease: nostray.Lease) -> None:
    def decline(method: str, params: Any) -> Any:
        raise nostray.Decline

    lease.on_request("host.llm.complete", decline)
    assert lease.call("ask", {"method": "host.llm.complete"})["error"]["code"] == -32601
    lease.on_request(None, lambda method, params: {"by": "second", "method": method, "params": params})
    lease.on_request("host.llm.complete", lambda method, params: {"by": "third"})
    answer = lease.call("ask", {"method": "host.llm.complete", "params": {"x": 1}})
    assert answer == {"result": {"by": "second", "method": "host.llm.complete", "params": {"x": 1}}}


def test_a_request_without_a_handler_gets_the_proper_error(lease: nostray.Lease) -> None:
    assert lease.call("ask", {"method": "unknown"})["error"] == {"code": -32601, "message": "the host has no handler for unknown"}


def test_an_mcp_server_may_ping(scene: Scene) -> None:
    with nostray.Lease(BRIDGE) as lease:
        assert lease.call("ask", {"method": "ping"}) == {"result": {}}


def test_what_a_handler_raises_is_answered(lease: nostray.Lease) -> None:
    @lease.on_request("own")
    def own(method: str, params: Any) -> Any:
        raise nostray.CallError(42, "own error", {"why": "x"})

    @lease.on_request("other")
    def other(method: str, params: Any) -> Any:
        raise KeyError("missing")

    lease.on_request("unsendable", lambda method, params: object())
    assert lease.call("ask", {"method": "own"}) == {"error": {"code": 42, "message": "own error", "data": {"why": "x"}}}
    assert lease.call("ask", {"method": "other"}) == {"error": {"code": -32603, "message": "'missing'"}}
    assert lease.call("ask", {"method": "unsendable"})["error"]["code"] == -32603


def test_a_request_handler_may_call_the_child_which_may_ask_again(lease: nostray.Lease) -> None:
    def deeper(method: str, params: Any) -> Any:
        depth = params["depth"]
        return lease.call("ask", {"method": "deeper", "params": {"depth": depth - 1}})["result"] + 1 if depth else 0

    lease.on_request("deeper", deeper)
    assert lease.call("ask", {"method": "deeper", "params": {"depth": 10}}) == {"result": 10}


def test_more_requests_than_threads_are_all_answered(lease: nostray.Lease) -> None:
    lease.on_request("slow", lambda method, params: time.sleep(0.01) or params)
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: answers.append(lease.call("ask", {"method": "slow", "params": [n]})))
        for n in range(100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(answer["result"][0] for answer in answers) == list(range(100))


def test_no_handler_begins_after_close(scene: Scene) -> None:
    for _ in range(10):
        closed = threading.Event()
        late: list[Any] = []
        lease = nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc")
        begun = threading.Event()

        def look(
            method: str, params: Any, begun: threading.Event = begun, closed: threading.Event = closed, late: Any = late
        ) -> None:
            begun.set()
            if closed.is_set():
                late.append(params)

        lease.on_notification(None, look)
        lease.on_request(None, look)
        lease.ready(20)
        threading.Thread(target=swallow, args=(lease,)).start()
        assert begun.wait(20)
        lease.close()
        closed.set()
        scene.no_server()
        assert not late


def swallow(lease: nostray.Lease) -> None:
    try:
        lease.call("notes", {"count": 5000})
    except nostray.LeaseError:
        pass


def test_a_handler_may_close_its_lease(scene: Scene) -> None:
    done = threading.Event()
    lease = nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc")

    @lease.on_notification(None)
    def close(method: str, params: Any) -> None:
        lease.close()
        done.set()

    swallow(lease)
    assert done.wait(20)
    scene.no_server()


def test_closing_does_not_wait_for_ever_for_a_handler_that_waits_for_the_closer(scene: Scene) -> None:
    lock, inside = threading.Lock(), threading.Event()
    lease = nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc")

    @lease.on_notification(None)
    def handler(method: str, params: Any) -> None:
        inside.set()
        with lock:
            pass

    lease.ready(20)
    with lock:
        lease.call("notes", {"count": 1})
        assert inside.wait(20)
        begun = time.monotonic()
        lease.close()
        assert time.monotonic() - begun < 5


def test_a_hook_whose_call_ends_since_the_lease_is_closed_has_not_failed(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    lease = nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc")
    inside, ended = threading.Event(), threading.Event()

    @lease.on_generation
    def hook(generation: int) -> None:
        inside.set()
        try:
            lease.call("hang")
        finally:
            ended.set()

    assert inside.wait(20)
    lease.close()
    assert ended.wait(20)
    scene.no_server()
    assert not caplog.records
