"""What runs under nostray, of this process and of others: list it, stop it, sweep what is left, watch what happens."""

from __future__ import annotations

import builtins
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Union

from ._errors import NostrayError
from ._options import moment_ago, words
from ._program import find_program
from ._status import objects

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from ._options import Time
    from ._session import Session

    Which = Union[str, Session, None]


@dataclass(frozen=True)
class Child:
    """A contained child, as ``nostray ps --json`` describes it. ``raw`` has all members."""

    id: str
    name: str
    state: str
    """starting, ready, stopping, orphaned, unproved or frozen; of a supervised child also asleep, backing-off or tripped."""
    command: builtins.list[str]
    session: Optional[str]
    labels: dict[str, str]
    slot: Optional[str]
    key: Optional[str]
    """Of a shared child: what its holders share it by."""
    generation: Optional[int]
    pid: Optional[int]
    """The child's."""
    front_pid: Optional[int]
    """Of the process that its host started."""
    memory: int
    """Of its whole tree, in bytes."""
    processes: int
    raw: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Event:
    """A line of the journal. ``raw`` has all members."""

    time: float
    """Unix time, in seconds."""
    id: Optional[str]
    event: str
    """started, ready, stopping, exited, empty and so on: ``nostray help log`` has the list."""
    reason: Optional[str]
    """Of stopping: why."""
    raw: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Swept:
    """What a sweep found of one child. ``raw`` has all members."""

    id: str
    outcome: str
    left: bool
    """Whether something of it is left, or may be."""
    raw: dict[str, Any] = field(repr=False)


def list(*which: str, session: Which = None, labels: Optional[Mapping[str, str]] = None) -> builtins.list[Child]:
    """Return the children that run: all, or those with these ids, keys, slots, sessions, names or labels."""
    chosen = words({"session": session, "labels": labels}, frozenset(("session", "labels")))
    # 1: there is none with that id or name.
    found = _run("ps", "--json", *chosen, *which, codes=(0, 1)).stdout
    return [_child(pen) for pen in json.loads(found)["pens"]] if found else []


def stop(
    *which: str, session: Which = None, labels: Optional[Mapping[str, str]] = None, everything: bool = False, now: bool = False
) -> bool:
    """End children with their trees, and wait until nothing is left. False if there was none.

    ``which`` are ids, keys, slots, sessions or names. With ``now``, they get no grace. Raises ``NostrayError`` if one did not end.
    """
    chosen = words(
        {"session": session, "labels": labels, "all": everything, "now": now}, frozenset(("session", "labels", "all", "now"))
    )
    done = _run("stop", *chosen, *which, codes=(0, 1))
    if done.returncode == 0:
        return True
    if list(*which, session=session, labels=labels):
        raise NostrayError(done.stderr.strip() or "a child did not end")
    return False


def sweep(*, dry_run: bool = False) -> builtins.list[Swept]:
    """End what is left of children whose guards were all killed, and nothing else. With ``dry_run``, only look."""
    done = _run("sweep", "--json", *(["--dry-run"] if dry_run else []), codes=(0, 1))
    return [Swept(str(each["id"]), str(each["outcome"]), bool(each.get("left")), each) for each in json.loads(done.stdout)["swept"]]


class watch:
    """An iterator over what happens from now on, as ``nostray log --follow`` tells it; ``close()`` ends it, from any thread."""

    def __init__(self, which: Optional[str] = None, *, session: Which = None, since: Time = 0) -> None:
        chosen = words({"session": session}, frozenset(("session",)))
        self._log = subprocess.Popen(
            # A moment: the program would count a time from its own start, which comes later than this call.
            [find_program(), "log", "--follow", "--json", "--since", moment_ago(since), *chosen, *([which] if which else [])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        assert self._log.stdout is not None
        for line in self._log.stdout:
            for entry in objects(line):
                return _event(entry)
        self.close()
        raise StopIteration

    def close(self) -> None:
        """End it. A thread that waits for the next event gets the end of the iteration."""
        self._log.kill()
        self._log.wait()

    def __del__(self) -> None:
        if hasattr(self, "_log"):
            self.close()
            assert self._log.stdout is not None
            self._log.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()


def _run(*words: str, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([find_program(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode not in codes:
        raise NostrayError(done.stderr.strip() or f"nostray {words[0]} failed")
    return done


def _child(pen: dict[str, Any]) -> Child:
    def pid(of: str) -> Optional[int]:
        process = pen.get(of)
        return process["pid"] if isinstance(process, dict) else None

    return Child(
        id=pen["id"],
        name=pen["name"],
        state=pen["state"],
        command=pen["command"],
        session=pen.get("session"),
        labels=pen.get("labels") or {},
        slot=pen.get("slot"),
        key=(pen.get("shared") or {}).get("key"),
        generation=pen.get("generation"),
        pid=pid("child"),
        front_pid=pid("front"),
        memory=pen.get("memory") or 0,
        processes=pen.get("processes") or 0,
        raw=pen,
    )


def _event(entry: dict[str, Any]) -> Event:
    return Event(
        time=entry.get("time", 0) / 1000,
        id=entry.get("id"),
        event=str(entry.get("event")),
        reason=entry.get("reason"),
        raw=entry,
    )
