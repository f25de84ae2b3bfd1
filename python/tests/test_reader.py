"""A reader that meets what is no message goes on, and long lines arrive whole, in both directions."""

from __future__ import annotations

import socket
from typing import Any

import pytest

import nostray
from conftest import BRIDGE, Scene, until
from nostray._status import objects

MIB = 1 << 20


def test_garbage_of_the_child_is_skipped(scene: Scene) -> None:
    with nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc") as lease:
        for _ in range(3):
            assert lease.call("garbage") == "after garbage"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"text",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"{",
        b"\xff\xfe",
        b"\x00\x00",
        b"[" * 200_000,
        b"1" * 10_000,
        b"{}" * 3,
        b'{"a":NaN',
        b"\r",
    ],
)
def test_a_line_that_is_no_object_is_no_message(line: bytes) -> None:
    assert objects(line + b"\n" + b'{"id":1}\r\n' + line + b"\n") == [{"id": 1}]


@pytest.mark.parametrize(
    "message",
    [
        {"id": [1], "result": 1},
        {"id": {}, "result": 1},
        {"id": True, "result": 1},
        {"id": "1", "result": 1},
        {"id": 1.5, "error": "text"},
        {"method": 7},
        {"method": None, "id": 1e999},
        {"jsonrpc": "2.0"},
        {"id": 99, "error": {"code": "x", "message": 3}},
    ],
)
def test_a_message_of_a_wrong_shape_harms_no_call(scene: Scene, message: Any) -> None:
    with nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc") as lease:
        lease.ready(20)
        # As if the front had passed it on.
        lease._front._take(message)
        assert lease.call("echo", [1]) == [1]


@pytest.mark.parametrize("size", [MIB, 63 * MIB])
def test_long_lines_arrive_whole(scene: Scene, size: int) -> None:
    with nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc") as lease:
        assert len(lease.call("big", {"size": size}, timeout=100)) == size
        assert lease.call("size", {"text": "x" * size}, timeout=100) == size


def test_a_line_that_is_too_long_is_an_error_of_its_call_alone(scene: Scene) -> None:
    with nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc", max_line="1M") as lease:
        with pytest.raises(nostray.CallError):
            lease.call("big", {"size": 2 * MIB}, timeout=60)
        assert lease.call("echo", [1]) == [1]


def test_a_child_that_does_not_read_delays_no_other_lease_and_no_notification_waits(scene: Scene) -> None:
    deaf = nostray.Lease(["sleep", "1000"], key="deaf", protocol="jsonrpc", eof_grace=0, term_grace=0)
    with deaf, nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc") as lease:
        for _ in range(20):
            deaf.notify("x", "y" * MIB)
        assert lease.call("echo", [1], timeout=20) == [1]
    until(lambda: not scene.running("sleep"), "the deaf child is gone")


def test_a_lease_survives_small_socket_buffers(scene: Scene) -> None:
    with nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc") as lease:
        lease._front._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        assert lease.call("size", {"text": "x" * MIB}) == MIB
