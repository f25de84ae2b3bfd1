"""What the tests share: a scene, which marks all that a test starts by a token in the environment, finds it in /proc, and fails if
something is left; and hosts, which are Python programs of their own that a test may kill. No test asks nostray what it believes."""

from __future__ import annotations

import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

import pytest

TESTS = Path(__file__).resolve().parent
BRIDGE = [sys.executable, str(TESTS / "servers" / "bridge.py")]
MCP_SERVER = [sys.executable, str(TESTS / "servers" / "mcp_server.py")]

# What ends in time on an idle machine has much more of it on a busy one.
DEADLINE = 60.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long") and not os.environ.get("NOSTRAY_LONG"):
            item.add_marker(pytest.mark.skip(reason="runs with NOSTRAY_LONG=1"))


def until(met: Callable[[], Any], what: str = "it", deadline: float = DEADLINE) -> Any:
    """Wait until this is true, and return it."""
    end = time.monotonic() + deadline
    while True:
        found = met()
        if found:
            return found
        assert time.monotonic() < end, f"not within {deadline} s: {what}"
        time.sleep(0.01)


class Host:
    """A Python program that uses the package."""

    def __init__(self, code: str, *args: str, flags: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *flags, "-c", textwrap.dedent(code), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        self._lines: queue.Queue[Optional[str]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self, deadline: float = DEADLINE) -> str:
        """Return the next line that it prints."""
        line = self._lines.get(timeout=deadline)
        assert line is not None, f"the host ended with {self.process.wait()}"
        return line

    def say(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE)

    def close_input(self) -> None:
        """What it waits for comes to an end, if it waits."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def wait(self, deadline: float = DEADLINE) -> int:
        return self.process.wait(deadline)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.close_input()


class Scene:
    """All processes that a test starts."""

    def __init__(self, folder: Path) -> None:
        self.token = f"SCENE={uuid.uuid4()}"
        self.folder = folder
        self.record = folder / "record"
        """Each server appends its pid when it starts."""
        self._hosts: list[Host] = []

    def host(self, code: str, *args: str, flags: tuple[str, ...] = ()) -> Host:
        """Start a program that uses the package."""
        host = Host(code, *args, flags=flags)
        self._hosts.append(host)
        return host

    def processes(self, named: str = "") -> list[int]:
        """The live processes of this scene with this in their command line, without the one that runs the test."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                environment = Path("/proc", entry, "environ").read_bytes()
                command = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if self.token.encode() in environment.split(b"\0") and named in command and state != "Z":
                found.append(int(entry))
        return sorted(found)

    def running(self, program: str) -> list[int]:
        """The live processes of this scene that run this program."""
        return [pid for pid in self.processes(program) if comm(pid) == program]

    def servers(self) -> list[int]:
        """The live servers of this scene: not nostray's processes, and not those that name a server in their arguments."""
        return [pid for pid in self.processes("/servers/") if _runs_a_server(pid)]

    def one_server(self) -> int:
        """Wait until there is exactly one, and return it."""
        return int(until(lambda: len(found := self.servers()) == 1 and found[0], "one server"))

    def kill_server(self, pid: int) -> None:
        """Kill it, and wait until it is dead: a call that was made before may have been read."""
        fd = os.pidfd_open(pid)
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        assert select.select([fd], [], [], DEADLINE)[0]
        os.close(fd)

    def starts(self) -> list[int]:
        """The pids of all servers that have started."""
        return [int(line) for line in self.record.read_text().split()] if self.record.exists() else []

    def empty(self, deadline: float = DEADLINE) -> None:
        """Wait until nothing is left."""
        until(lambda: not self.processes(), f"nothing is left of {self.describe()}", deadline)

    def no_server(self, deadline: float = DEADLINE) -> None:
        """Wait until no server is left."""
        until(lambda: not self.servers(), "no server is left", deadline)

    def describe(self) -> list[str]:
        return [f"{pid} {comm(pid)}" for pid in self.processes()]

    def end(self) -> list[str]:
        """End what is left, and say what it was."""
        for host in self._hosts:
            host.end()
        try:
            until(lambda: not self.processes(), "", 15)
            return []
        except AssertionError:
            left = self.describe()
        for pid in self.processes():
            try:
                fd = os.pidfd_open(pid)
                if pid in self.processes():
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
                os.close(fd)
            except ProcessLookupError:
                pass
        return left


def comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _runs_a_server(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return len(words) > 1 and b"/servers/" in words[1]


@pytest.fixture(autouse=True)
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    # Not pytest's own folder: the path of a socket is short.
    folder = Path(tempfile.mkdtemp(prefix="nostray-py-"))
    scene = Scene(folder)
    name, value = scene.token.split("=")
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("BRIDGE_RECORD", str(scene.record))
    for variable in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME"):
        (folder / variable).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(folder / variable))
    before = threads()
    yield scene
    left = scene.end()
    shutil.rmtree(folder, ignore_errors=True)
    assert not left, f"left behind: {left}"
    until(lambda: not zombies(), f"no zombie is left of {zombies()}", 5)
    until(lambda: threads() <= before, f"no thread is left of {threads() - before}", 5)


def zombies() -> list[int]:
    """Children of this process that it has not reaped."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        for pid in task.joinpath("children").read_text().split():
            try:
                stat = Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            if stat.rpartition(")")[2].split()[0] == "Z":
                found.append(int(pid))
    return found


def threads() -> set[str]:
    """The names of the threads, without the one that stays for all leases."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("nostray-")} - {"nostray-io"}
