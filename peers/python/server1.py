"""The server of the tour with the Python SDK 1.x."""

import os
from typing import Any

import anyio
import mcp.server.stdio
from mcp import McpError, types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.lowlevel.helper_types import ReadResourceContents

import offer

server: Server[Any, Any] = Server("tour-python1", version="1.0.0", instructions="Take the tour.")
subscribed: set[str] = set()
level = "debug"
cancelled = 0


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    return [types.Tool(**tool) for tool in offer.TOOLS]


@server.call_tool(validate_input=False)
async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
    return [types.TextContent(type="text", text=await do(name, arguments))]


async def do(name: str, arguments: dict[str, Any]) -> str:
    global cancelled
    session, request = server.request_context.session, server.request_context.request_id
    meta = server.request_context.meta
    token = None if meta is None else meta.progressToken
    match name:
        case "add":
            return str(arguments["a"] + arguments["b"])
        case "echo":
            return arguments["text"]
        case "work":
            steps = arguments["steps"]
            for step in range(1, steps + 1):
                await anyio.sleep(0.05)
                if token is not None:
                    await session.send_progress_notification(
                        token, step, steps, f"step {step}", related_request_id=str(request)
                    )
            # An SDK may drop a progress that arrives together with the answer.
            await anyio.sleep(0.05)
            return f"worked {steps}"
        case "wait":
            try:
                # It has begun.
                if token is not None:
                    await session.send_progress_notification(token, 0, related_request_id=str(request))
                await anyio.sleep(arguments["seconds"])
            except anyio.get_cancelled_exc_class():
                cancelled += 1
                raise
            return "waited"
        case "cancelled":
            return str(cancelled)
        case "sample":
            text = types.TextContent(type="text", text=arguments["prompt"])
            result = await session.create_message(
                [types.SamplingMessage(role="user", content=text)], max_tokens=50, related_request_id=request
            )
            return f"sampled: {result.content.text}"
        case "ask":
            result = await session.elicit(arguments["question"], offer.NAME_SCHEMA, related_request_id=request)
            return f"{result.action}: {(result.content or {}).get('name')}"
        case "roots":
            return " ".join(str(root.uri) for root in (await session.list_roots()).roots)
        case "log":
            for each in offer.LOGGED:
                if offer.LEVELS.index(each) >= offer.LEVELS.index(level):
                    text = offer.logged(each, arguments)
                    await session.send_log_message(each, text, "tour", related_request_id=request)
            return "logged"
        case "touch":
            if arguments["uri"] in subscribed:
                await session.send_resource_updated(types.AnyUrl(arguments["uri"]))
            return "touched"
        case "announce":
            await session.send_tool_list_changed()
            return "announced"
        case "die":
            os._exit(1)
        case _:
            raise McpError(types.ErrorData(code=types.INVALID_PARAMS, message=f"no tool '{name}'"))


@server.list_resources()
async def list_resources() -> list[types.Resource]:
    return [types.Resource(**resource) for resource in offer.RESOURCES]


@server.list_resource_templates()
async def list_templates() -> list[types.ResourceTemplate]:
    return [types.ResourceTemplate(**template) for template in offer.TEMPLATES]


@server.read_resource()
async def read_resource(uri: types.AnyUrl) -> list[ReadResourceContents]:
    text = offer.resource(str(uri))
    if text is None:
        raise McpError(types.ErrorData(code=-32002, message=f"no resource '{uri}'"))
    return [ReadResourceContents(content=text, mime_type="text/plain")]


@server.subscribe_resource()
async def subscribe(uri: types.AnyUrl) -> None:
    subscribed.add(str(uri))


@server.unsubscribe_resource()
async def unsubscribe(uri: types.AnyUrl) -> None:
    subscribed.discard(str(uri))


@server.set_logging_level()
async def set_level(new: types.LoggingLevel) -> None:
    global level
    level = new


@server.list_prompts()
async def list_prompts() -> list[types.Prompt]:
    return [types.Prompt(**prompt) for prompt in offer.PROMPTS]


@server.get_prompt()
async def get_prompt(_name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
    text = types.TextContent(type="text", text=offer.greeting(arguments))
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])


@server.completion()
async def complete(_ref: Any, argument: types.CompletionArgument, _context: Any) -> types.Completion:
    return types.Completion(**offer.completion(argument.value))


async def main() -> None:
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    # 1.x never says that it can.
    options.capabilities.resources.subscribe = True
    async with mcp.server.stdio.stdio_server() as streams:
        await server.run(*streams, options)


anyio.run(main)
