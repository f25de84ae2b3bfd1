"""Random open, close, call and kill from many threads, in a host of its own: no deadlock, no wrong answer, nothing left."""

from __future__ import annotations

import pytest

from conftest import BRIDGE, Scene

RACE = f"""
import collections, faulthandler, gc, os, random, signal, sys, threading, time
import nostray
BRIDGE, ROUNDS, THREADS = {BRIDGE!r}, int(sys.argv[1]), 8
faulthandler.dump_traceback_later(float(sys.argv[2]), exit=True)
seen, wrong, counter, lock = collections.Counter(), [], iter(range(ROUNDS)), threading.Lock()

def lease():
    # A start may fail while another thread kills children: these failures are not to trip it.
    return nostray.Lease(BRIDGE, key=random.choice("ab"), protocol="jsonrpc", backoff="10ms..20ms", max_failures="999/1m", eof_grace=1)

def work(number):
    random.seed(number)
    held = []
    while True:
        with lock:
            round = next(counter, None)
        if round is None:
            break
        what = random.choices(("open", "call", "ask", "cancel", "close", "drop", "kill", "collect"), (30, 40, 10, 10, 20, 5, 4, 1))[0]
        seen[what] += 1
        try:
            if what == "open" and len(held) < 4 or not held:
                held.append(lease())
                held[-1].on_request("host.echo", lambda method, params: params)
                held[-1].on_notification(None, lambda method, params: None)
            one = random.choice(held)
            if what == "call":
                if one.call("echo", [number, round], timeout=60) != [number, round]: wrong.append("echo")
            elif what == "ask":
                # Which of several sessions is asked is not certain: then the bridge gets an error.
                one.call("ask", {{"method": "host.echo", "params": [round]}}, timeout=60)
            elif what == "cancel":
                one.call("slow", {{"seconds": 1}}, timeout=random.random() / 100)
            elif what == "close":
                held.remove(one)
                one.close()
                try: one.call("echo", timeout=60)
                except nostray.LeaseError: pass
                else: wrong.append("answered after close")
            elif what == "drop":
                held.remove(one)
            elif what == "kill":
                os.kill(one.call("pid", timeout=60), signal.SIGKILL)
            elif what == "collect":
                gc.collect()
            del one
        except nostray.CallTimeout:
            if what != "cancel": wrong.append(f"{{what}} took a minute")
        except nostray.ChildDied: seen["died"] += 1
        except ProcessLookupError: pass
        except Exception as error: wrong.append(repr(error))
    for one in held:
        if random.random() < 0.5: one.close()

threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(dict(seen), wrong[:5], flush=True)
print("wrong" if wrong else "right", flush=True)
sys.stdin.readline()
gc.collect()
deadline = time.monotonic() + 20
# Threads of handlers stay for a second.
while threading.active_count() > 2 and time.monotonic() < deadline: time.sleep(0.05)
print(threading.active_count(), flush=True)
sys.stdin.readline()
"""


def race(scene: Scene, rounds: int, deadline: float) -> None:
    host = scene.host(RACE, str(rounds), str(deadline))
    counts = host.line(deadline)
    assert host.line() == "right", counts
    scene.no_server()
    host.say()
    assert int(host.line()) <= 2, "only the main thread and the one for all leases are left"
    host.say()
    assert host.wait() == 0
    scene.empty()


def test_a_thousand_rounds_of_eight_threads_leave_nothing(scene: Scene) -> None:
    race(scene, 1000, 50)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_twenty_thousand_rounds_of_eight_threads_leave_nothing(scene: Scene) -> None:
    race(scene, 20_000, 500)
