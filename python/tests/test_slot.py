"""A slot has one holder: this process, until it releases it or ends."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

import nostray
from conftest import Scene, until

HOLD = """
import nostray, os, sys
slot = nostray.Slot("memory", *sys.argv[1:])
print("held", flush=True)
sys.stdin.readline()
"""


def test_one_process_holds_a_slot_and_the_next_one_follows(scene: Scene) -> None:
    with nostray.Slot("memory") as slot:
        assert slot.held
        with pytest.raises(nostray.SlotTaken, match="memory"):
            nostray.Slot("memory", "fail")
        begun = time.monotonic()
        with pytest.raises(nostray.SlotTaken):
            nostray.Slot("memory", timeout=0.2)
        assert time.monotonic() - begun >= 0.2
        waiter = scene.host(HOLD)
        until(lambda: scene.processes("slot hold") and len(scene.processes("slot hold")) == 2, "it waits")
        with nostray.Slot("another"):
            pass
    assert waiter.line() == "held" and not slot.held
    slot.release()
    waiter.kill()
    with nostray.Slot("memory", timeout=20):
        pass


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)", "slot.release(); sys.stdin.readline()", "sys.exit()"])
def test_a_slot_is_free_however_its_holder_ends(scene: Scene, end: str) -> None:
    host = scene.host(HOLD + end, flags=("-X", "dev", "-W", "error"))
    assert host.line() == "held"
    host.say()
    with nostray.Slot("memory", timeout=20):
        pass


def test_a_forked_process_does_not_keep_the_slot(scene: Scene) -> None:
    host = scene.host(
        """
        import nostray, os, sys, time
        slot = nostray.Slot("memory")
        if os.fork() == 0:
            slot.release()
            assert not slot.held
            time.sleep(3)
            os._exit(0)
        print("forked", slot.held, flush=True)
        sys.stdin.readline()
        slot.release()
        print("released", flush=True)
        sys.stdin.readline()
        """
    )
    assert host.line() == "forked True"
    with pytest.raises(nostray.SlotTaken):
        nostray.Slot("memory", "fail")
    host.say()
    assert host.line() == "released"
    with nostray.Slot("memory", "fail"):
        pass


def test_a_holder_that_is_asked_hands_over_when_it_is_done(scene: Scene) -> None:
    asked: list[str] = []
    told = threading.Event()

    def on_asked(text: str) -> None:
        asked.append(text)
        told.set()

    slot = nostray.Slot("memory", on_asked=on_asked)
    newcomer = scene.host(HOLD, "replace")
    assert told.wait(20) and asked[0]
    assert slot.held
    slot.release()
    assert newcomer.line() == "held"


def test_a_callback_may_release_the_slot_itself(scene: Scene) -> None:
    slot = nostray.Slot("memory", on_asked=lambda text: slot.release())
    newcomer = scene.host(HOLD, "replace")
    assert newcomer.line() == "held"
    until(lambda: not slot.held)


def test_without_a_callback_a_holder_that_is_asked_gets_sigterm(scene: Scene) -> None:
    first = scene.host(HOLD)
    assert first.line() == "held"
    second = scene.host(HOLD, "replace")
    assert second.line() == "held"
    assert first.wait() == -signal.SIGTERM


def test_a_holder_that_is_starting_is_not_asked_before_it_is_ready(scene: Scene) -> None:
    told = threading.Event()
    slot = nostray.Slot("memory", starting=True, on_asked=lambda text: told.set())
    newcomer = scene.host(HOLD, "replace")
    until(lambda: len(scene.processes("slot hold")) == 2, "the newcomer waits")
    # This is about time itself: it must not be asked.
    assert not told.wait(1)
    slot.ready()
    assert told.wait(20)
    slot.release()
    assert newcomer.line() == "held"


def test_an_interrupt_while_it_waits_leaves_nothing(scene: Scene) -> None:
    with nostray.Slot("memory"):
        host = scene.host(
            """
            import nostray, signal
            signal.signal(signal.SIGINT, signal.default_int_handler)
            print("up", flush=True)
            try:
                nostray.Slot("memory")
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            input()
            """
        )
        assert host.line() == "up"
        until(lambda: len(scene.processes("slot hold")) == 2, "it waits")
        os.kill(host.pid, signal.SIGINT)
        assert host.line() == "interrupted"
        until(lambda: len(scene.processes("slot hold")) == 1, "it does not wait any longer")


def test_a_holder_process_that_is_killed_is_noticed(scene: Scene) -> None:
    slot = nostray.Slot("memory")
    os.kill(slot._holder.pid, signal.SIGKILL)
    until(lambda: not slot.held)
    slot.ready()
    slot.release()
