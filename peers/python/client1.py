"""The Python SDK 1.x as client; on the tour if it is run: client1.py SERVER ARGUMENTS..."""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client

import tour


class Client1:
    def __init__(self, person: tour.Person) -> None:
        self.person = person
        self.heard: list[list[Any]] = []
        self.session: ClientSession

    async def about(self) -> dict[str, Any]:
        result = await self.session.initialize()
        return {
            "version": result.protocolVersion,
            "server": result.serverInfo.name,
            "capabilities": plain(result.capabilities),
            "instructions": result.instructions,
        }

    async def list(self, what: str) -> Any:
        session = self.session
        lists = {
            "tools": session.list_tools,
            "resources": session.list_resources,
            "templates": session.list_resource_templates,
            "prompts": session.list_prompts,
        }
        return await answer(lists[what]())

    async def call(self, name: str, arguments: dict[str, Any], progress: bool = False) -> Any:
        callback = self.on_progress if progress else None
        return await answer(self.session.call_tool(name, arguments, progress_callback=callback))

    async def cancel(self, name: str, arguments: dict[str, Any], after: Callable[[], Awaitable[Any]]) -> str:
        # 1.x has no call that cancels: its ids count up.
        number, outcome, begun = self.session._request_id, "no answer", anyio.Event()

        async def begins(*_progress: Any) -> None:
            begun.set()

        async with anyio.create_task_group() as group:

            async def call() -> None:
                nonlocal outcome
                try:
                    await self.session.call_tool(name, arguments, progress_callback=begins)
                    outcome = "an answer"
                except McpError as error:
                    outcome = error.error.message

            group.start_soon(call)
            await begun.wait()
            cancelled = types.CancelledNotificationParams(requestId=number, reason="the tour")
            await self.session.send_notification(
                types.ClientNotification(types.CancelledNotification(params=cancelled))
            )
            await after()
            # An answer to the call has come before that; the task that waits for it has taken it when all tasks wait.
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        return outcome

    async def read(self, uri: str) -> Any:
        return await answer(self.session.read_resource(types.AnyUrl(uri)))

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return await answer(self.session.get_prompt(name, arguments))

    async def complete(self, ref: dict[str, str], argument: str, value: str) -> Any:
        reference = types.PromptReference(**ref)
        return await answer(self.session.complete(reference, {"name": argument, "value": value}))

    async def set_level(self, level: Any) -> None:
        await answer(self.session.set_logging_level(level))

    async def subscribe(self, uri: str) -> None:
        await answer(self.session.subscribe_resource(types.AnyUrl(uri)))

    async def unsubscribe(self, uri: str) -> None:
        await answer(self.session.unsubscribe_resource(types.AnyUrl(uri)))

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.heard.append(["progress", progress, total, message])

    async def on_message(self, message: Any) -> None:
        if isinstance(message, types.ServerNotification) and not isinstance(message.root, types.ProgressNotification):
            params = getattr(message.root, "params", None)
            self.heard.append([message.root.method, plain(params) if params else {}])

    async def on_sampling(self, _context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.heard.append(["sampling/createMessage", plain(params)])
        content = types.TextContent(type="text", text=self.person.sampled)
        return types.CreateMessageResult(role="assistant", content=content, model="tour", stopReason="endTurn")

    async def on_elicitation(self, _context: Any, params: Any) -> types.ElicitResult:
        self.heard.append(["elicitation/create", plain(params)])
        return types.ElicitResult(action="accept", content={"name": self.person.name})

    async def on_roots(self, _context: Any) -> types.ListRootsResult:
        self.heard.append(["roots/list", {}])
        roots = [types.Root(uri=types.FileUrl(uri), name=uri[-3:]) for uri in self.person.roots]
        return types.ListRootsResult(roots=roots)


def plain(model: Any) -> Any:
    found = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    found.pop("_meta", None)
    return found


async def answer(call: Any) -> Any:
    try:
        return plain(await call)
    except McpError as error:
        raise tour.Refused(error.error.code, error.error.message) from error


@asynccontextmanager
async def connect(command: list[str], person: tour.Person | None = None) -> AsyncIterator[Client1]:
    """Starts a server and connects this person to it."""
    client = Client1(person or tour.Person())
    without = client.person.without
    # The SDK passes on a few variables only; the tests find processes by one of the others.
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with (
        stdio_client(server) as streams,
        ClientSession(
            *streams,
            sampling_callback=None if "sampling" in without else client.on_sampling,
            elicitation_callback=None if "elicitation" in without else client.on_elicitation,
            list_roots_callback=None if "roots" in without else client.on_roots,
            message_handler=client.on_message,
        ) as session,
    ):
        client.session = session
        yield client


async def main() -> None:
    async with connect(sys.argv[1:]) as client:
        await tour.take(client)


if __name__ == "__main__":
    anyio.run(main)
