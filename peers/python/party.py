"""A party: several clients of one server at the same time. party.py ORDERS SERVER ARGUMENTS...; see party.mjs."""

import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio

import tour

ORDERS: dict[str, Any] = json.loads(sys.argv[1])
ALONE = ORDERS["of"] == 1
Act = Callable[[], Awaitable[Any]]
Call = tuple[str, dict[str, Any]]


class OwnServer:
    """How the servers of this folder are called."""

    is_everything = False
    common = "test://greeting"
    levels = ("warning", "error")
    roots: Call = ("roots", {})
    wait: Call = ("wait", {"seconds": 60})

    def __init__(self, name: str, is_odd: bool) -> None:
        self.add = ("add", {"a": 2, "b": 3 if is_odd else 4})
        self.sample = ("sample", {"prompt": f"a haiku for {name}"})
        self.ask = ("ask", {"question": f"Are you {name}?"})
        self.own = self.page = f"test://items/{name}"
        self.prompt = ("greet", {"name": name})
        self.complete = ({"type": "ref/prompt", "name": "greet"}, "name", "b" if is_odd else "a")

    def echo(self, text: str) -> Call:
        return ("echo", {"text": text})

    def work(self, steps: int) -> Call:
        return ("work", {"steps": steps})

    def touch(self, uri: str) -> Call:
        return ("touch", {"uri": uri})


class Everything:
    """How server-everything is."""

    is_everything = True
    common = "demo://resource/common"
    levels = ("info", "error")
    roots: Call = ("get-roots-list", {})
    wait: Call = ("trigger-long-running-operation", {"duration": 4, "steps": 20})
    ask: Call = ("trigger-elicitation-request", {})

    def __init__(self, name: str, is_odd: bool) -> None:
        self.add = ("get-sum", {"a": 2, "b": 3 if is_odd else 4})
        self.sample = ("trigger-sampling-request", {"prompt": f"a haiku for {name}", "maxTokens": 20})
        self.own = f"demo://resource/{name}"
        self.page = f"demo://resource/static/document/{'features' if is_odd else 'startup'}.md"
        self.prompt = ("args-prompt", {"city": name})
        team = {"type": "ref/prompt", "name": "completable-prompt"}
        self.complete = (team, "department", "S" if is_odd else "E")

    def echo(self, text: str) -> Call:
        return ("echo", {"message": text})

    def work(self, steps: int) -> Call:
        return ("trigger-long-running-operation", {"duration": steps * 0.05, "steps": steps})

    def touch(self, _uri: str) -> Call:
        return ("toggle-subscriber-updates", {})


class Guest:
    def __init__(self, guest: dict[str, Any], peer: tour.Peer) -> None:
        self.name, self.number, self.peer = guest["name"], guest["number"], peer
        self.is_odd = self.number % 2 == 1
        self.provoked: Any = None
        self.cancelled: str | None = None

    async def greet(self) -> None:
        """The handshake, if that is still to be done."""
        self.about = await self.peer.about()
        is_everything = self.about["server"] == "mcp-servers/everything"
        self.words = (Everything if is_everything else OwnServer)(self.name, self.is_odd)
        quiet = tour.chatter if is_everything else lambda _note: False
        self.diary = tour.Diary(self.peer, quiet)

    async def meet(self, point: str) -> None:
        """Waits until all are here."""
        if ALONE:
            return
        folder = Path(ORDERS["meet"]) / point
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.name).touch()
        deadline = time.monotonic() + 240
        while len(list(folder.iterdir())) < ORDERS["of"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} is alone at '{point}'")
            await anyio.sleep(0.005)

    async def call(self, call: Call, progress: bool = False) -> Any:
        return await self.peer.call(*call, progress=progress)

    async def flush(self) -> Any:
        """When this is answered, all that the server has said before has arrived."""
        return await self.call(self.words.echo("flush"))

    async def step(self, name: str, act: Act, expect: int = 0) -> None:
        """All do it at the same time."""
        await self.meet(name)
        await self.diary.step(name, act, expect)

    async def together(self, name: str, act: Act, expect: int = 0) -> None:
        """The same, and what it has others hear belongs to it."""

        async def and_others() -> Any:
            answer = await act()
            await self.meet(f"{name}, done")
            await self.flush()
            return answer

        await self.step(name, and_others, expect)

    async def in_common(self, name: str, by: int, act: Act, expect: int = 0) -> None:
        """Only one does it, and all hear of it."""
        is_up_to_us = ALONE or self.number == by

        async def silent() -> None:
            await (act() if is_up_to_us else self.flush())

        await self.together(name, silent, expect)

    async def calls(self) -> None:
        """Calls, each for itself."""
        peer, words = self.peer, self.words
        for what in ("tools", "resources", "templates", "prompts"):
            await self.step(f"list {what}", lambda what=what: peer.list(what))
        await self.step("add", lambda: self.call(words.add))
        await self.step("echo", lambda: self.call(words.echo(f"{self.name} {tour.ODD_TEXT}")))
        await self.step("echo much", lambda: self.call(words.echo(f"{self.name} {tour.LONG_TEXT}")))
        steps = 3 if self.is_odd else 4
        # The last one of server-everything is chatter.
        heard = steps - 1 if words.is_everything else steps
        await self.step("progress", lambda: self.call(words.work(steps), progress=True), heard)
        await self.step("complete", lambda: peer.complete(*words.complete))
        await self.step("prompt", lambda: peer.prompt(*words.prompt))
        await self.step("read", lambda: peer.read(words.page))
        await self.step("many at once", self.many)
        await self.step("no such tool", lambda: peer.call("nothing", {}))
        await self.step("no such resource", lambda: peer.read(f"{words.common}/nothing"))

    async def many(self) -> Any:
        calls = [self.words.echo(f"{self.name} {n}") for n in range(20)]
        return await tour.at_once(self.peer, "echo", [arguments for _name, arguments in calls])

    async def few(self) -> None:
        """Fewer of them, for a crowd."""
        peer, words, step = self.peer, self.words, self.diary.step
        await step("list tools", lambda: peer.list("tools"))
        for n in (1, 2, 3):
            await step(f"echo {n}", lambda n=n: self.call(words.echo(f"{self.name} {n}")))
        heard = 1 if words.is_everything else 2
        await step("progress", lambda: self.call(words.work(2), progress=True), heard)
        await step("prompt", lambda: peer.prompt(*words.prompt))
        await step("complete", lambda: peer.complete(*words.complete))
        await step("read", lambda: peer.read(words.page))
        await step("many at once", self.many)

    async def cancel(self) -> None:
        """Half of them cancel a call, while the others have one in flight with the same id; and the other way round."""
        for odd in (False, True):
            name = f"{'odd' if odd else 'even'} ones cancel"
            if self.is_odd == odd:
                await self.step(name, lambda: self.peer.cancel(*self.words.wait, self.flush))
            else:
                heard = 7 if self.words.is_everything else 8
                await self.step(name, lambda: self.call(self.words.work(8), progress=True), heard)
                # As many requests as the cancelling guests have made.
                await self.flush()
        # What was cancelled goes on there, unheard, and an SDK may stumble over what comes while it leaves: until the same is over that
        # began later.
        if self.words.is_everything:
            await self.step("not cancelled", lambda: self.call(self.words.wait))

    async def tally(self) -> None:
        """How many calls the server itself has seen cancelled."""
        answer = await tour.until(self.peer, "cancelled", "1" if ALONE else str(ORDERS["of"]))
        self.cancelled = answer["content"][0]["text"]

    async def levels(self) -> None:
        """How much each wants to be told."""
        await self.together("level", lambda: self.peer.set_level(self.words.levels[self.is_odd]))
        # Server-everything logs each subscription.
        if not self.words.is_everything:
            await self.together("log", lambda: self.peer.call("log", {"name": self.name}), 1 if self.is_odd else 2)

    async def updates(self) -> None:
        """Each subscribes to something of its own, and all to something."""
        peer, words, number = self.peer, self.words, self.number
        last = ORDERS["of"] - 1
        await self.together("subscribe", lambda: peer.subscribe(words.own))
        await self.together("subscribe to what all do", lambda: peer.subscribe(words.common))
        # Server-everything logs the subscriptions that it is told of; it is told of an end only when the last guest
        # unsubscribes.
        if words.is_everything:
            await self.together("level again", lambda: peer.set_level("error"))

        def touch() -> Awaitable[Any]:
            return self.call(words.touch(words.common))

        def touch_own() -> Awaitable[Any]:
            return self.call(words.touch(words.own))

        if words.is_everything:
            await self.in_common("updates on", 0, touch, 2)
            await self.in_common("updates off", 0, touch)
        else:
            await self.together("touch", touch_own, 1)
            await self.in_common("touch what all want", 0, touch, 1)
        await self.together(
            "one unsubscribes", lambda: peer.unsubscribe(words.common) if number == 0 else self.flush()
        )
        if words.is_everything:
            await self.in_common("updates on again", last, touch, 1 if number == 0 else 2)
            await self.in_common("updates off again", last, touch)
        else:
            await self.in_common("touch what all but one want", last, touch, 0 if number == 0 else 1)
        await self.together("unsubscribe", lambda: peer.unsubscribe(words.own))
        if not words.is_everything:
            await self.together("touch unheard", touch_own)

    async def announce(self) -> None:
        """A list has changed, and all hear of it."""
        await self.in_common("announce", 0, lambda: self.peer.call("announce", {}), 1)

    async def provoke(self) -> None:
        """Has the server ask something that the router cannot assign to a session; it takes turns from then on."""
        if ALONE:
            return
        await self.meet("provoke")

        async def call(call: Call, progress: bool) -> None:
            try:
                self.provoked = await self.call(call, progress)
            except tour.Refused as refused:
                self.provoked = {"refused": refused.args[1]}

        async with anyio.create_task_group() as group:
            if self.number == 0:
                # Long enough for all of the others to ask meanwhile on a busy machine.
                group.start_soon(call, self.words.work(200), True)
                with anyio.move_on_after(10):
                    while not any(note[0] == "progress" for note in self.peer.heard):
                        await anyio.sleep(0.005)
            await self.meet("provoke, begun")
            if self.number != 0:
                await call(self.words.sample, False)
        await self.meet("provoked")
        self.peer.heard.clear()

    async def questions(self) -> None:
        """What the server asks of its client."""
        words = self.words
        await self.step("sample", lambda: self.call(words.sample), 1)
        await self.step("elicit", lambda: self.call(words.ask), 1)
        await self.step("roots", lambda: self.call(words.roots), 0 if words.is_everything else 1)
        calls = [words.work(2), words.sample, words.ask, *(words.echo(f"{self.name} {n}") for n in (1, 2, 3))]

        async def all_of_them() -> list[Any]:
            answers: list[Any] = [None] * len(calls)

            async def one(place: int) -> None:
                answers[place] = await self.call(calls[place], progress=True)

            async with anyio.create_task_group() as group:
                for place in range(len(calls)):
                    group.start_soon(one, place)
            return answers

        await self.step("all at once", all_of_them, 3 if words.is_everything else 4)

    async def orderly(self) -> None:
        """The same, one guest after the other: no need to be careful."""
        words = self.words
        for turn in range(ORDERS["of"]):
            await self.meet(f"turn {turn}")
            if ALONE or turn == self.number:
                await self.diary.step("sample in turn", lambda: self.call(words.sample))
                await self.diary.step("elicit in turn", lambda: self.call(words.ask))
                await self.diary.step("roots in turn", lambda: self.call(words.roots))

    async def leftovers(self) -> None:
        """What came and was not for any step."""
        await self.together("leftovers", self.flush)

    async def celebrate(self) -> None:
        await self.greet()
        await self.meet("here")
        for part in ORDERS["parts"]:
            await getattr(self, part)()
        await self.meet("end")

    def document(self) -> dict[str, Any]:
        document = {"about": self.about, "steps": self.diary.steps}
        notes = {"provoked": self.provoked, "cancelled": self.cancelled}
        return document | {name: note for name, note in notes.items() if note is not None}


async def main() -> None:
    server = sys.argv[2:] if ORDERS["sdk"] == 1 else [ORDERS["mode"], *sys.argv[2:]]
    if "version" in ORDERS:
        importlib.import_module("mcp.types").LATEST_PROTOCOL_VERSION = ORDERS["version"]
    connect = importlib.import_module(f"client{ORDERS['sdk']}").connect
    documents: dict[str, Any] = {}
    all_done, left = anyio.Event(), len(ORDERS["guests"])

    async def one(guest: dict[str, Any]) -> None:
        nonlocal left
        name = guest["name"]
        roots = ORDERS.get("roots") or [f"file:///{name}/one", f"file:///{name}/two"]
        person = tour.Person(name, f"a sample of {name}", roots, ORDERS.get("without", []))
        async with AsyncExitStack() as stack:
            here = Guest(guest, await stack.enter_async_context(connect(server, person)))
            await here.celebrate()
            documents[name] = here.document()
            left -= 1
            if left == 0:
                print(json.dumps(documents, sort_keys=True), flush=True)
                all_done.set()
            await all_done.wait()

    async with anyio.create_task_group() as group:
        for guest in ORDERS["guests"]:
            group.start_soon(one, guest)


anyio.run(main)
