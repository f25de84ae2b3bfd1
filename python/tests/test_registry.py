"""List, stop, sweep and watch what runs, and end a session."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

import nostray
from conftest import BRIDGE, Scene, until


def test_children_are_listed_with_what_they_belong_to(scene: Scene) -> None:
    assert nostray.registry.list() == []
    with nostray.Popen(["sleep", "100"], session="chat-17", labels={"task": "42"}, slot="memory") as process:
        [child] = nostray.registry.list()
        assert (child.session, child.labels, child.slot, child.command) == ("chat-17", {"task": "42"}, "memory", ["sleep", "100"])
        assert (child.pid, child.front_pid, child.key) == (process.child_pid, process.pid, None)
        assert until(lambda: nostray.registry.list()[0].state == "ready")
        assert child.processes == 1 and child.memory > 0 and child.raw["id"] == child.id
        for found in (nostray.registry.list(session="chat-17"), nostray.registry.list(child.id, labels={"task": "42"})):
            assert [each.id for each in found] == [child.id]
        assert nostray.registry.list(session="chat-18") == []
        assert nostray.registry.stop(child.id)
        assert process.wait() == -15 and process.exit is not None and process.exit.reason == "stop-request"
    assert not nostray.registry.stop(child.id) and not nostray.registry.stop(everything=True)


def test_a_shared_child_is_listed_with_its_key_and_generation(scene: Scene) -> None:
    with nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc") as lease:
        lease.call("pid")
        [child] = nostray.registry.list()
        assert child.key is not None and "memory" in child.key and child.generation == 1 and child.id == lease.id


def test_stopping_at_once_gives_no_grace(scene: Scene) -> None:
    with nostray.Popen(
        ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"], stdout=nostray.PIPE, term_grace=60
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        assert nostray.registry.stop(everything=True, now=True)
        assert process.wait(10) == -9


def test_a_session_ends_all_that_belongs_to_it(scene: Scene) -> None:
    other = nostray.Popen(["sleep", "100"], session="chat-18")
    with nostray.Session("chat-17") as session:
        children = [nostray.Popen(["sleep", "100"], session=session) for _ in range(3)]
        lease = nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc", session=session)
    assert [child.wait(20) for child in children] == [-15, -15, -15]
    with pytest.raises(nostray.LeaseError):
        lease.call("pid")
    assert other.poll() is None
    nostray.Session("chat-18").close(now=True)
    assert other.wait(20) == -9
    nostray.Session("no such session").close()
    assert repr(session) == "Session('chat-17')" and str(session) == "chat-17"


def test_watch_tells_what_happens_until_it_is_closed(scene: Scene) -> None:
    with nostray.registry.watch() as events:
        process = nostray.Popen(["sleep", "100"], session="chat-17")
        seen = []
        for event in events:
            seen.append(event)
            if event.event == "ready":
                process.terminate()
            if event.event == "empty":
                break
        process.wait()
    kinds = [event.event for event in seen]
    assert kinds[0] == "started" and kinds[-1] == "empty" and "exited" in kinds
    stopping = next(event for event in seen if event.event == "stopping")
    assert stopping.reason == "signal" and stopping.time > 1e9 and stopping.id == stopping.raw["id"]


def test_a_watch_begins_with_the_call_however_late_its_process_starts(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    program, go = scene.folder / "late-nostray", scene.folder / "go"
    program.write_text(f'#!/bin/sh\nuntil [ -e {go} ]; do sleep 0.01; done\nexec {nostray.find_program()} "$@"\n')
    program.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(nostray.registry, "find_program", lambda: str(program))
        events = nostray.registry.watch()
    with events, nostray.Popen(["sleep", "100"]) as process:
        assert until(lambda: nostray.registry.list()[0].state == "ready")
        time.sleep(0.01)  # the journal counts in milliseconds
        go.touch()
        assert until(lambda: scene.processes("--follow"))
        process.terminate()
        assert next(events).event == "started"


def test_a_watch_is_closed_from_another_thread_and_by_being_dropped(scene: Scene) -> None:
    events = nostray.registry.watch()
    ended = threading.Event()
    thread = threading.Thread(target=lambda: (list(events), ended.set()))
    thread.start()
    until(lambda: scene.processes("--follow"))
    events.close()
    assert ended.wait(20)
    thread.join()
    events = nostray.registry.watch()
    del events
    scene.empty()


def test_a_sweep_ends_what_is_left_when_all_guards_were_killed(scene: Scene) -> None:
    assert nostray.registry.sweep() == []
    # A child that ignores SIGTERM, which the kernel sends when its guards are gone.
    process = nostray.Popen(["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.2; done"], stdout=nostray.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    [child] = nostray.registry.list()
    keepers = [child.raw[keeper]["pid"] for keeper in ("front", "spare", "guard")]
    for keeper in keepers:
        os.kill(keeper, signal.SIGSTOP)
    for keeper in keepers:
        os.kill(keeper, signal.SIGKILL)
    process.wait(20)
    process.stdout.close()
    assert process.child_pid in scene.processes("trap")
    looked = until(lambda: nostray.registry.sweep(dry_run=True))
    assert looked[0].id == child.id and process.child_pid in scene.processes("trap")
    swept = nostray.registry.sweep()
    assert swept[0].id == child.id and not swept[0].left
    scene.empty()
