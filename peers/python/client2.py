"""The Python SDK 2.x as client; on the tour if it is run: client2.py MODE SERVER ARGUMENTS..., where MODE is `auto` or
`legacy`."""

import os
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp.client.session
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters

import tour

# In `auto`, a server that has not answered by then counts as one of the older protocol; on a busy machine it is not even up.
mcp.client.session.DISCOVER_TIMEOUT_SECONDS = 120.0

# It warns of everything that the newer protocol has left out, and the tour uses all of it.
warnings.simplefilter("ignore")


class Client2:
    def __init__(self, person: tour.Person) -> None:
        self.person = person
        self.heard: list[list[Any]] = []
        self.client: Client
        self.level: Any = None
        self.subscriptions: dict[str, AsyncExitStack] = {}
        self.listeners: Any

    @property
    def modern(self) -> bool:
        return self.client.protocol_version >= "2026"

    async def about(self) -> dict[str, Any]:
        client = self.client
        return {
            "version": client.protocol_version,
            "server": client.server_info.name,
            "capabilities": plain(client.server_capabilities),
            "instructions": client.instructions,
        }

    async def list(self, what: str) -> Any:
        client = self.client
        lists = {
            "tools": client.list_tools,
            "resources": client.list_resources,
            "templates": client.list_resource_templates,
            "prompts": client.list_prompts,
        }
        return await answer(lists[what]())

    async def call(self, name: str, arguments: dict[str, Any], progress: bool = False) -> Any:
        callback = self.on_progress if progress else None
        # In the newer protocol each request says how much it wants to be told.
        meta = {types.LOG_LEVEL_META_KEY: self.level} if self.modern and self.level else None
        return await answer(self.client.call_tool(name, arguments, progress_callback=callback, meta=meta))

    async def cancel(self, name: str, arguments: dict[str, Any], after: Callable[[], Awaitable[Any]]) -> str:
        async def begins(*_progress: Any) -> None:
            scope.cancel()

        with anyio.CancelScope() as scope:
            await self.client.call_tool(name, arguments, progress_callback=begins)
        await after()
        return "cancelled" if scope.cancelled_caught else "an answer"

    async def read(self, uri: str) -> Any:
        return await answer(self.client.read_resource(uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return await answer(self.client.get_prompt(name, arguments))

    async def complete(self, ref: dict[str, str], argument: str, value: str) -> Any:
        reference = types.PromptReference(**ref)
        return await answer(self.client.complete(reference, {"name": argument, "value": value}))

    async def set_level(self, level: Any) -> None:
        self.level = level
        if not self.modern:
            await answer(self.client.set_logging_level(level))

    async def subscribe(self, uri: str) -> Any:
        if not self.modern:
            await answer(self.client.subscribe_resource(uri))
            return None
        stack = AsyncExitStack()
        listening = self.client.listen(tools_list_changed=True, resource_subscriptions=[uri])
        subscription = await stack.enter_async_context(listening)
        self.subscriptions[uri] = stack
        self.listeners.start_soon(self.follow, uri, subscription)
        return plain(subscription.honored)

    async def follow(self, uri: str, subscription: Any) -> None:
        """Writes down what comes, and its end unless it was we who ended it."""
        try:
            async for event in subscription:
                self.heard.append(["event", repr(event)])
            if uri in self.subscriptions:
                self.heard.append(["subscription closed"])
        except RuntimeError as error:
            self.heard.append(["subscription lost", str(error)])

    async def unsubscribe(self, uri: str) -> None:
        if self.modern:
            await self.subscriptions.pop(uri).aclose()
        else:
            await answer(self.client.unsubscribe_resource(uri))

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.heard.append(["progress", progress, total, message])

    async def on_message(self, message: Any) -> None:
        method = getattr(message, "method", None)
        # What belongs to a subscription is written down as its event.
        is_event = self.modern and (method or "").endswith(("list_changed", "resources/updated"))
        if method is not None and method != "notifications/progress" and not is_event:
            params = getattr(message, "params", None)
            self.heard.append([method, plain(params) if params else {}])

    async def on_sampling(self, _context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.heard.append(["sampling/createMessage", plain(params)])
        content = types.TextContent(type="text", text=self.person.sampled)
        return types.CreateMessageResult(role="assistant", content=content, model="tour", stop_reason="endTurn")

    async def on_elicitation(self, _context: Any, params: Any) -> types.ElicitResult:
        self.heard.append(["elicitation/create", plain(params)])
        return types.ElicitResult(action="accept", content={"name": self.person.name})

    async def on_roots(self, _context: Any) -> types.ListRootsResult:
        self.heard.append(["roots/list", {}])
        return types.ListRootsResult(roots=[types.Root(uri=uri, name=uri[-3:]) for uri in self.person.roots])


def plain(model: Any) -> Any:
    found = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    found.pop("_meta", None)
    return found


async def answer(call: Any) -> Any:
    try:
        return plain(await call)
    except MCPError as error:
        raise tour.Refused(error.error.code, error.error.message) from error


@asynccontextmanager
async def connect(command: list[str], person: tour.Person | None = None) -> AsyncIterator[Client2]:
    """Starts a server, the words of whose command follow the mode, and connects this person to it."""
    peer = Client2(person or tour.Person())
    without = peer.person.without
    mode, program, *arguments = command
    # The SDK passes on a few variables only; the tests find processes by one of the others.
    server = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    async with (
        Client(
            server,
            mode=mode,
            sampling_callback=None if "sampling" in without else peer.on_sampling,
            elicitation_callback=None if "elicitation" in without else peer.on_elicitation,
            list_roots_callback=None if "roots" in without else peer.on_roots,
            message_handler=peer.on_message,
        ) as client,
        anyio.create_task_group() as listeners,
    ):
        peer.client, peer.listeners = client, listeners
        yield peer
        listeners.cancel_scope.cancel()


async def main() -> None:
    async with connect(sys.argv[1:]) as peer:
        await tour.take(peer)


if __name__ == "__main__":
    anyio.run(main)
