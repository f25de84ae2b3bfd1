"""A program that is a child itself learns of the end of its parent at once, or ends with it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import nostray
from conftest import Scene, until

# A parent that starts the code as its child, and is killed by the test.
PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-X", "dev", "-c", sys.argv[1], sys.argv[2]])
print(child.pid, flush=True)
child.wait()
"""


def orphan(scene: Scene, code: str) -> tuple[Path, int]:
    """Kill the parent of this code when the code is up. Returns its report, and its pid."""
    report = scene.folder / "report"
    prelude = "import asyncio, os, sys, threading, time, nostray\ndef say(text): open(sys.argv[1], 'a').write(text + '\\n')\n"
    parent = scene.host(PARENT, prelude + code, str(report))
    child = int(parent.line())
    until(lambda: report.exists() and "up\n" in report.read_text(), "the child is up")
    parent.kill()
    return report, child


def test_watch_calls_back_once_when_the_parent_is_killed(scene: Scene) -> None:
    report, _ = orphan(
        scene,
        "done = threading.Event()\nwatch = nostray.parent.watch(lambda: (say('gone'), done.set()))\n"
        "say('up')\ndone.wait(30)\nwatch.cancel()",
    )
    until(lambda: report.read_text() == "up\ngone\n")
    scene.empty()


def test_a_watch_that_is_cancelled_does_not_call_back(scene: Scene) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with nostray.parent.watch(lambda: pytest.fail("called back")) as watch:
        pass
    watch.cancel()
    until(lambda: len(os.listdir("/proc/self/fd")) == before, "all is closed")


def test_a_watch_does_not_keep_a_program_alive_and_uses_no_time(scene: Scene) -> None:
    host = scene.host(
        "import nostray, time\nnostray.parent.watch(print)\nbefore = time.process_time()\n"
        "time.sleep(0.5)\nprint(time.process_time() - before < 0.05)"
    )
    assert host.line() == "True"
    assert host.wait() == 0


def test_gone_returns_in_an_event_loop(scene: Scene) -> None:
    report, _ = orphan(
        scene,
        "async def main():\n    gone = asyncio.ensure_future(nostray.parent.gone())\n    await asyncio.sleep(0)\n    say('up')\n"
        "    await gone\n    say('gone')\nasyncio.run(main())",
    )
    until(lambda: report.read_text() == "up\ngone\n")
    scene.empty()


def test_die_with_ends_a_program_that_hangs_outside_of_python(scene: Scene) -> None:
    # A C function that never returns: no handler of Python's runs.
    code = "nostray.parent.die_with()\nnostray.parent.die_with()\nsay('up')\nimport signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [])\n"
    orphan(scene, code + "import re\nre.match('(a*)*b', 'a' * 60)")
    begun = time.monotonic()
    scene.empty()
    assert time.monotonic() - begun < 10


def test_die_with_kills_a_program_that_ignores_sigterm(scene: Scene) -> None:
    orphan(
        scene,
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nnostray.parent.die_with()\nsay('up')\ntime.sleep(1000)",
    )
    scene.empty()


def test_die_with_ends_with_its_program(scene: Scene) -> None:
    host = scene.host("import nostray\nnostray.parent.die_with()\nprint('up', flush=True)", flags=("-X", "dev", "-W", "error"))
    assert host.line() == "up"
    assert host.wait() == 0
    scene.empty()


def test_a_signal_of_the_terminal_does_not_end_the_watcher(scene: Scene) -> None:
    host = scene.host(
        "import nostray, os, signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nos.setpgid(0, 0)\nnostray.parent.die_with()\n"
        "os.kill(0, signal.SIGINT)\nprint('up', flush=True)\nsys.stdin.readline()"
    )
    assert host.line() == "up"
    assert len(scene.processes("--end-caller")) == 1
    host.process.send_signal(signal.SIGTERM)
    host.wait()
