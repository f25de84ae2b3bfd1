"""The tour that every Python client takes: the same steps, in the same order, against any server.

A client program hands over a `Peer`, which hides how its SDK spells a call. The tour writes down everything it saw:
answers, and what it heard from the server meanwhile. What differs between any two runs (ids, times) is not in it.
"""

import itertools
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio

ROOTS = ["file:///tour/one", "file:///tour/two"]
# A line separator and a paragraph separator are ordinary characters in JSON, and a line ends in 0x0A alone.
ODD_TEXT = 'line\u2028separator \u2029 "quoted" \\ tab\t end\r\n\U0001f680 \u0000'
LONG_TEXT = "nostray " * 30_000
# Longer than `--hibernate 1s`: nothing is in flight, so the server may go to sleep.
PAUSE = float(os.environ.get("TOUR_PAUSE", "1.5"))
# A folder in which the test, which sees the server sleep, says when a pause is over; without it, a pause takes its
# time.
GATE = os.environ.get("TOUR_GATE")
PAUSES = itertools.count(1)


@dataclass
class Person:
    """What a client says when it is asked, and what it cannot be asked."""

    name: str = "Ada"
    sampled: str = "a sample"
    roots: list[str] = field(default_factory=lambda: ROOTS)
    without: list[str] = field(default_factory=list)


class Peer(Protocol):
    """How an SDK spells what the tour does. Answers are JSON objects; an error is raised as `Refused`."""

    heard: list[list[Any]]

    async def about(self) -> dict[str, Any]: ...
    async def list(self, what: str) -> Any: ...
    async def call(self, name: str, arguments: dict[str, Any], progress: bool = False) -> Any: ...
    async def cancel(self, name: str, arguments: dict[str, Any], after: Callable[[], Awaitable[Any]]) -> str:
        """Cancels a call when the server says that it has begun: an SDK that reads a call together with its cancel
        may go on with it. Then makes another call, whose answer comes after all that comes for the cancelled call."""
        ...
    async def read(self, uri: str) -> Any: ...
    async def prompt(self, name: str, arguments: dict[str, str]) -> Any: ...
    async def complete(self, ref: dict[str, str], argument: str, value: str) -> Any: ...
    async def set_level(self, level: str) -> None: ...
    async def subscribe(self, uri: str) -> None: ...
    async def unsubscribe(self, uri: str) -> None: ...


class Refused(Exception):
    """An error answer: its code and message are what the tour writes down."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)


class Diary:
    """What was seen, step by step."""

    def __init__(self, peer: Peer, quiet: Callable[[list[Any]], bool]) -> None:
        self.peer, self.quiet, self.steps = peer, quiet, []

    async def step(self, name: str, act: Callable[[], Awaitable[Any]], expect: int = 0) -> None:
        """Does one thing, and waits until as much was heard as a server says about it."""
        try:
            answer = await act()
        except Refused as refused:
            answer = {"refused": list(refused.args)}
        with anyio.move_on_after(10):
            while len(self._loud()) < expect:
                await anyio.sleep(0.01)
        self.steps.append({"step": name, "answer": answer, "heard": self._loud()})
        self.peer.heard.clear()

    def _loud(self) -> list[list[Any]]:
        return [note for note in self.peer.heard if not self.quiet(note)]


def print_diary(about: dict[str, Any], diary: Diary) -> None:
    """The document, in one line."""
    print(json.dumps({"about": about, "steps": diary.steps}, sort_keys=True), flush=True)


async def take(peer: Peer) -> None:
    """The tour, chosen by who the server says it is."""
    about = await peer.about()
    if about["server"] == "mcp-servers/everything":
        diary = Diary(peer, chatter)
        await everything(peer, diary)
    else:
        diary = Diary(peer, lambda _note: False)
        await own_server(peer, diary)
    print_diary(about, diary)


async def own_server(peer: Peer, diary: Diary) -> None:
    """Against one of the servers of this folder."""
    step, call = diary.step, peer.call
    for what in ("tools", "resources", "templates", "prompts"):
        await step(f"list {what}", lambda what=what: peer.list(what))
    await step("add", lambda: call("add", {"a": 2, "b": 3}))
    await step("echo", lambda: call("echo", {"text": ODD_TEXT}))
    await step("echo much", lambda: call("echo", {"text": LONG_TEXT}))
    await step("progress", lambda: call("work", {"steps": 3}, progress=True), expect=3)
    await step("cancel", lambda: peer.cancel("wait", {"seconds": 60}, lambda: call("echo", {"text": "after"})))
    await step("was cancelled", lambda: until(peer, "cancelled", "1"))
    await step("sample", lambda: call("sample", {"prompt": "a haiku"}), expect=1)
    await step("elicit", lambda: call("ask", {"question": "Who are you?"}), expect=1)
    await step("roots", lambda: call("roots", {}), expect=1)
    await step("level", lambda: peer.set_level("warning"))
    await step("log", lambda: call("log", {}), expect=2)
    await step("subscribe", lambda: peer.subscribe("test://greeting"))
    await step("touch", lambda: call("touch", {"uri": "test://greeting"}), expect=1)
    await step("touch another", lambda: call("touch", {"uri": "test://farewell"}))
    await step("complete", lambda: peer.complete({"type": "ref/prompt", "name": "greet"}, "name", "a"))
    await step("prompt", lambda: peer.prompt("greet", {"name": "Ada"}))

    await pause()
    await step("add after a pause", lambda: call("add", {"a": 20, "b": 30}))
    await step("log after a pause", lambda: call("log", {}), expect=2)
    await step("touch after a pause", lambda: call("touch", {"uri": "test://greeting"}), expect=1)
    await step("sample after a pause", lambda: call("sample", {"prompt": "again"}), expect=1)

    await pause()
    await step("read after a pause", lambda: peer.read("test://greeting"))
    await step("read a template", lambda: peer.read("test://items/7"))
    await step("touch after two pauses", lambda: call("touch", {"uri": "test://greeting"}), expect=1)
    await step("elicit after two pauses", lambda: call("ask", {"question": "Still there?"}), expect=1)
    await step("progress after two pauses", lambda: call("work", {"steps": 2}, progress=True), expect=2)
    await step("roots after two pauses", lambda: call("roots", {}), expect=1)
    await step("announce", lambda: call("announce", {}), expect=1)
    await step("unsubscribe", lambda: peer.unsubscribe("test://greeting"))
    await step("touch unheard", lambda: call("touch", {"uri": "test://greeting"}))
    await step("many at once", lambda: at_once(peer, "echo", [{"text": f"number {n}"} for n in range(20)]))
    await step("no such tool", lambda: call("nothing", {}))
    await step("no such resource", lambda: peer.read("test://nothing"))


def is_about_the_start(note: list[Any]) -> bool:
    """A third of a second after its start server-everything asks for the roots, and says so."""
    said = note[1].get("data") if note[0] == "notifications/message" else None
    return isinstance(said, str) and said.startswith("Roots updated")


def chatter(note: list[Any]) -> bool:
    """What server-everything says as often as it likes, or so late that an SDK may drop it."""
    # After every start, which may be one after a sleep, it announces its tools and asks for the roots; the last
    # progress comes in one breath with the answer.
    at_start = ("notifications/tools/list_changed", "roots/list")
    return note[0] in at_start or is_about_the_start(note) or (note[0] == "progress" and note[1] == note[2])


async def everything(peer: Peer, diary: Diary) -> None:
    """Against @modelcontextprotocol/server-everything."""
    step, call = diary.step, peer.call
    document = "demo://resource/static/document/features.md"
    await step("start", lambda: heard(peer, is_about_the_start))
    for what in ("tools", "resources", "templates", "prompts"):
        await step(f"list {what}", lambda what=what: peer.list(what))
    await step("add", lambda: call("get-sum", {"a": 2, "b": 3}))
    await step("echo", lambda: call("echo", {"message": ODD_TEXT}))
    await step("echo much", lambda: call("echo", {"message": LONG_TEXT}))
    await step("structured", lambda: call("get-structured-content", {"location": "Chicago"}))
    await step("image", lambda: call("get-tiny-image", {}))
    work = "trigger-long-running-operation"
    await step("progress", lambda: call(work, {"duration": 0.3, "steps": 3}, progress=True), expect=2)
    # It works on, unheard; a pause later that is over.
    long_work, after = {"duration": 4, "steps": 20}, {"message": "after"}
    await step("cancel", lambda: peer.cancel(work, long_work, lambda: call("echo", after)))
    await step("sample", lambda: call("trigger-sampling-request", {"prompt": "a haiku", "maxTokens": 20}), expect=1)
    await step("elicit", lambda: call("trigger-elicitation-request", {}), expect=1)
    await step("roots", lambda: call("get-roots-list", {}))
    await step("level", lambda: peer.set_level("info"))
    await step("subscribe", lambda: peer.subscribe(document), expect=1)
    await step("level again", lambda: peer.set_level("error"))
    await step("updates on", lambda: call("toggle-subscriber-updates", {}), expect=1)
    await step("updates off", lambda: call("toggle-subscriber-updates", {}))
    team = {"type": "ref/prompt", "name": "completable-prompt"}
    await step("complete", lambda: peer.complete(team, "department", "S"))
    await step("prompt", lambda: peer.prompt("args-prompt", {"city": "Paris"}))

    await pause()
    await step("add after a pause", lambda: call("get-sum", {"a": 20, "b": 30}))
    await step("updates on after a pause", lambda: call("toggle-subscriber-updates", {}), expect=1)
    await step("updates off after a pause", lambda: call("toggle-subscriber-updates", {}))
    await step("sample after a pause", lambda: call("trigger-sampling-request", {"prompt": "more"}), expect=1)
    # Until it has asked for the roots: the next pause should be quiet.
    await step("progress after a pause", lambda: call(work, {"duration": 0.8, "steps": 2}, progress=True), expect=1)

    await pause()
    await step("read after a pause", lambda: peer.read(document))
    await step("elicit after two pauses", lambda: call("trigger-elicitation-request", {}), expect=1)
    # Again: an SDK may stumble over a question that comes while it leaves.
    await step(
        "progress after two pauses", lambda: call(work, {"duration": 0.8, "steps": 2}, progress=True), expect=1
    )
    # At level `error`, it does not tell that it unsubscribes.
    await step("unsubscribe", lambda: peer.unsubscribe(document))
    await step("updates unheard", lambda: call("toggle-subscriber-updates", {}))
    await step("many at once", lambda: at_once(peer, "echo", [{"message": f"number {n}"} for n in range(20)]))
    await step("no such tool", lambda: call("nothing", {}))
    await step("no such resource", lambda: peer.read("demo://nothing"))


async def pause() -> None:
    """Nothing is under way, until the server has gone to sleep if it may."""
    if GATE is None:
        await anyio.sleep(PAUSE)
        return
    number = next(PAUSES)
    (Path(GATE) / f"waits-{number}").touch()
    # The test that was to say so may be gone, and nothing else ends this process.
    with anyio.fail_after(240):
        while not (Path(GATE) / f"on-{number}").exists():
            await anyio.sleep(0.05)


async def heard(peer: Peer, is_this: Callable[[list[Any]], bool]) -> list[Any] | None:
    """Waits until the server has said this."""
    with anyio.move_on_after(10):
        while True:
            if note := next(filter(is_this, peer.heard), None):
                return note
            await anyio.sleep(0.01)
    return None


async def until(peer: Peer, tool: str, text: str) -> Any:
    """Calls a tool until it says this: what it tells about is on its way."""
    with anyio.move_on_after(10):
        while (answer := await peer.call(tool, {}))["content"][0]["text"] != text:
            await anyio.sleep(0.02)
    return answer


async def at_once(peer: Peer, tool: str, calls: list[dict[str, Any]]) -> list[Any]:
    """Calls that are all in flight together."""
    answers: list[Any] = [None] * len(calls)

    async def one(place: int) -> None:
        answers[place] = await peer.call(tool, calls[place])

    async with anyio.create_task_group() as group:
        for place in range(len(calls)):
            group.start_soon(one, place)
    return answers
