"""However a host ends, forks, or loses what it had, nothing of its leases is left, and other holders go on."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

import nostray
from conftest import BRIDGE, Host, Scene

LEASE = f"""
import gc, multiprocessing, os, signal, sys, threading, time
import nostray
BRIDGE = {BRIDGE!r}
def lease(key="memory", **options): return nostray.Lease(BRIDGE, key=key, protocol="jsonrpc", **options)
def say(*words): print(*words, flush=True)
"""
# What a host must not say: no warning of an unclosed socket, a process that still runs, or a thread that failed.
STRICT = ("-X", "dev", "-W", "error")


def strict_host(scene: Scene, code: str) -> tuple[Host, Any]:
    """A host whose standard error must stay empty."""
    errors = scene.folder / f"stderr-{len(scene._hosts)}"
    prelude = f"import os; os.dup2(os.open({str(errors)!r}, os.O_WRONLY | os.O_CREAT), 2)\n"
    return scene.host(prelude + LEASE + code, flags=STRICT), errors


ENDS = {
    "returning": "",
    "sys.exit": "sys.exit(3)",
    "os._exit": "os._exit(3)",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)",
    "an exception": "sys.excepthook = lambda *_: None; 1 / 0",
    "exec": "os.execv('/bin/true', ['true'])",
    "a call in flight": "threading.excepthook = lambda *_: None; threading.Thread(target=held.call, args=['hang'], daemon=True).start()",
    "a deleted lease": "del held; sys.stdin.readline()",
    "a lease in a cycle": "held.cycle = held; del held; gc.collect(); sys.stdin.readline()",
    "closing": "held.close(); sys.stdin.readline()",
}


@pytest.mark.parametrize("how", ENDS)
def test_nothing_is_left_after(scene: Scene, how: str) -> None:
    host, errors = strict_host(scene, f"held = lease()\nsay(held.call('pid'))\nsys.stdin.readline()\n{ENDS[how]}\n")
    assert int(host.line()) == scene.one_server()
    host.say()
    scene.no_server()
    host.close_input()
    host.wait()
    scene.empty()
    assert errors.read_text() == ""


def test_a_host_that_ends_before_its_child_is_there_leaves_nothing(scene: Scene) -> None:
    for end in ("os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "sys.exit()", "held.close()"):
        host, errors = strict_host(scene, f"held = lease()\n{end}\n")
        host.wait()
        scene.empty()
        # The program may find that its host has already ended, and says so.
        assert "Warning" not in errors.read_text() and "Traceback" not in errors.read_text()


def test_of_two_hosts_with_the_same_key_one_is_killed_and_the_other_goes_on(scene: Scene) -> None:
    code = LEASE + "held = lease()\nsay(held.call('pid'))\nwhile sys.stdin.readline(): say(held.call('pid'))\n"
    one, other = scene.host(code), scene.host(code)
    pid = one.line()
    assert other.line() == pid
    one.kill()
    for _ in range(20):
        other.say()
        assert other.line() == pid
    assert scene.starts() == [int(pid)]
    other.kill()
    scene.empty()


def test_a_forked_process_holds_nothing_by_accident(scene: Scene) -> None:
    host, errors = strict_host(
        scene,
        """
held = lease()
say(held.call("pid"))
ready, wait = os.pipe()
child = os.fork()
if child == 0:
    try:
        held.call("pid")
    except nostray.LeaseError as error:
        say(error)
    held.close()
    with lease() as own:
        say(own.call("pid"))
    say("forked")
    # It lives on, with copies of what the parent had open at the fork.
    os.close(wait)
    os.read(ready, 1)
    os._exit(0)
line = sys.stdin.readline()
say(held.call("pid"))
held.close()
sys.stdin.readline()
os.close(wait)
os.waitpid(child, 0)
""",
    )
    pid = host.line()
    assert "belongs to another process" in host.line()
    assert host.line() == pid and host.line() == "forked"
    host.say()
    assert host.line() == pid
    scene.no_server()
    host.say()
    assert host.wait() == 0
    assert errors.read_text() == ""


def test_a_killed_host_releases_although_a_forked_process_lives_on(scene: Scene) -> None:
    host = scene.host(
        LEASE
        + """
held = lease()
held.ready()
ready, wait = os.pipe()
if os.fork() == 0:
    os.close(wait)
    os.read(ready, 1)
    time.sleep(3)
    os._exit(0)
say("forked")
sys.stdin.readline()
"""
    )
    assert host.line() == "forked"
    scene.one_server()
    host.kill()
    scene.no_server()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_have_leases_of_their_own(scene: Scene, method: str) -> None:
    script = scene.folder / "host.py"
    script.write_text(
        LEASE
        + f"""
def work(number):
    with lease() as own:
        return own.call("pid")
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    with lease() as held:
        pid = held.call("pid")
        with context.Pool(3) as pool:
            assert set(pool.map(work, range(6))) == {{pid}}
        assert held.call("pid") == pid
        say("done")
    sys.stdin.readline()
"""
    )
    host = scene.host(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    if method != "fork":
        # The others import the script anew.
        host.end()
        host = scene.host(f"import os, sys; os.execv(sys.executable, [sys.executable, {str(script)!r}])")
    assert host.line() == "done"
    scene.no_server()
    assert len(set(scene.starts())) == len(scene.starts())
    host.say()
    host.wait()


def test_forking_while_threads_use_leases_deadlocks_nothing(scene: Scene) -> None:
    host = scene.host(
        LEASE
        + """
held, over = lease(), threading.Event()
def use():
    while not over.is_set(): held.call("echo", ["x" * 1000])
threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(100):
    child = os.fork()
    if child == 0:
        try: held.call("pid")
        except nostray.LeaseError: os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
over.set()
for thread in threads: thread.join()
held.close()
say("done")
"""
    )
    assert host.line(60) == "done"
    assert host.wait() == 0
    scene.empty()


def test_ctrl_c_reaches_the_host_and_not_its_leases(scene: Scene) -> None:
    host = scene.host(
        LEASE
        + """
held = lease()
pid = held.call("pid")
signal.signal(signal.SIGINT, signal.default_int_handler)
os.setpgid(0, 0)
try:
    os.kill(0, signal.SIGINT)
    held.call("hang")
except KeyboardInterrupt:
    say(held.call("pid") == pid, held.call("cancelled"))
"""
    )
    assert host.line() in ("True []", "True ['jsonrpc']")
    host.wait()


def test_the_garbage_collector_may_close_a_lease_at_any_point_of_the_code_of_another(scene: Scene) -> None:
    host, errors = strict_host(
        scene,
        """
gc.set_threshold(1)
class Provider:
    def __init__(self): self.lease, self.me = lease(), self
    def __del__(self):
        try: self.lease.notify("bye")
        except nostray.LeaseError: pass
        self.lease.close()
held = lease()
def work():
    for _ in range(5):
        Provider()
        for number in range(10): assert held.call("echo", [number]) == [number]
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
gc.collect()
say("done", held.call("pid"))
held.close()
""",
    )
    assert host.line(60).startswith("done")
    assert host.wait() == 0
    scene.empty()
    assert errors.read_text() == ""


def test_a_host_that_ignores_the_death_of_its_children_or_reaps_them_all_uses_leases(scene: Scene) -> None:
    for setting in ("signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "threading.Thread(target=reap, daemon=True).start()"):
        host, errors = strict_host(
            scene,
            f"""
def reap():
    while True:
        try: os.waitpid(-1, 0)
        except ChildProcessError: time.sleep(0.001)
{setting}
for _ in range(5):
    with lease() as held: say(held.call("echo", [1]))
process = nostray.Popen(["sh", "-c", "exit 5"])
say(process.wait())
""",
        )
        assert [host.line() for _ in range(6)] == ["[1]"] * 5 + ["5"]
        assert host.wait() == 0 and errors.read_text() == ""


def test_a_further_lease_costs_a_host_no_thread_and_three_descriptors(scene: Scene) -> None:
    # In a process of its own: what other tests have left for the garbage collector would be counted here.
    host, errors = strict_host(
        scene,
        """
def descriptors(): return len(os.listdir("/proc/self/fd"))
first = lease()
first.ready(20)
threads, before = threading.active_count(), descriptors()
more = [lease() for _ in range(20)]
for each in more: each.ready(20)
say(threading.active_count() - threads, descriptors() - before)
for each in more: each.close()
while descriptors() != before: time.sleep(0.001)
say("all descriptors are closed")
first.close()
""",
    )
    assert host.line() == "0 60"
    assert host.line() == "all descriptors are closed"
    assert host.wait() == 0 and errors.read_text() == ""


@pytest.mark.long
@pytest.mark.timeout(200)
def test_none_comes_back_in_a_minute_after_the_last_holder_has_closed(scene: Scene) -> None:
    leases = [nostray.Lease(BRIDGE, key="memory", protocol="jsonrpc") for _ in range(3)]
    pid = leases[0].call("pid")
    scene.kill_server(pid)
    for lease in leases:
        assert lease.call("pid") != pid
        lease.close()
    scene.no_server()
    starts = scene.starts()
    # This is about time itself.
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert not scene.servers()
        time.sleep(0.2)
    assert scene.starts() == starts and len(starts) == 2, sys.executable
