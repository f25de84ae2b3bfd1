"""The server of the tour with the Python SDK 2.x. It serves either protocol, as the client's first line decides."""

import os
import warnings
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged

import offer

# It warns of everything that the newer protocol has left out, and the tour uses all of it.
warnings.simplefilter("ignore")

bus = InMemorySubscriptionBus()
subscribed: set[str] = set()
level = "debug"
cancelled = 0


async def call_tool(context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
    done = await do(context, params, params.arguments or {})
    if isinstance(done, types.InputRequiredResult):
        return done
    return types.CallToolResult(content=[types.TextContent(type="text", text=done)])


async def do(context: ServerRequestContext[Any], params: Any, arguments: dict[str, Any]) -> Any:
    global cancelled
    session, modern = context.session, context.protocol_version >= "2026"
    match params.name:
        case "add":
            return str(arguments["a"] + arguments["b"])
        case "echo":
            return arguments["text"]
        case "work":
            steps = arguments["steps"]
            for step in range(1, steps + 1):
                await anyio.sleep(0.05)
                await session.report_progress(step, steps, f"step {step}")
            # An SDK may drop a progress that arrives together with the answer.
            await anyio.sleep(0.05)
            return f"worked {steps}"
        case "wait":
            try:
                await session.report_progress(0)  # it has begun
                await anyio.sleep(arguments["seconds"])
            except anyio.get_cancelled_exc_class():
                cancelled += 1
                raise
            return "waited"
        case "cancelled":
            return str(cancelled)
        case "sample":
            text = types.TextContent(type="text", text=arguments["prompt"])
            wanted = types.CreateMessageRequestParams(
                messages=[types.SamplingMessage(role="user", content=text)], max_tokens=50
            )
            result = await ask(context, params, types.CreateMessageRequest(params=wanted), types.CreateMessageResult)
            return result if is_question(result) else f"sampled: {result.content.text}"
        case "ask":
            wanted = types.ElicitRequestFormParams(
                message=arguments["question"], requested_schema=offer.NAME_SCHEMA
            )
            result = await ask(context, params, types.ElicitRequest(params=wanted), types.ElicitResult)
            return result if is_question(result) else f"{result.action}: {(result.content or {}).get('name')}"
        case "roots":
            result = await ask(context, params, types.ListRootsRequest(), types.ListRootsResult)
            return result if is_question(result) else " ".join(str(root.uri) for root in result.roots)
        case "log":
            for each in offer.LOGGED:
                # In the newer protocol the SDK itself keeps to what the request asks for.
                if modern or offer.LEVELS.index(each) >= offer.LEVELS.index(level):
                    await session.send_log_message(each, offer.logged(each, arguments), "tour", context.request_id)
            return "logged"
        case "touch":
            if modern:
                await bus.publish(ResourceUpdated(arguments["uri"]))
            elif arguments["uri"] in subscribed:
                await session.send_resource_updated(arguments["uri"])
            return "touched"
        case "announce":
            await (bus.publish(ToolsListChanged()) if modern else session.send_tool_list_changed())
            return "announced"
        case "die":
            os._exit(1)
        case name:
            raise MCPError(types.INVALID_PARAMS, f"no tool '{name}'")


async def ask(context: ServerRequestContext[Any], params: Any, request: Any, result_type: Any) -> Any:
    """Asks the client for something: by a request in the older protocol, by a result in the newer."""
    if context.protocol_version < "2026":
        return await context.session.send_request(request, result_type)
    if (params.input_responses or {}).get("it") is not None:
        return params.input_responses["it"]
    return types.InputRequiredResult(input_requests={"it": request})


def is_question(result: Any) -> bool:
    return isinstance(result, types.InputRequiredResult)


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in offer.TOOLS])


async def list_resources(_context: Any, _params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource.model_validate(each) for each in offer.RESOURCES])


async def list_templates(_context: Any, _params: Any) -> types.ListResourceTemplatesResult:
    templates = [types.ResourceTemplate.model_validate(template) for template in offer.TEMPLATES]
    return types.ListResourceTemplatesResult(resource_templates=templates)


async def read_resource(_context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    text = offer.resource(params.uri)
    if text is None:
        raise MCPError(types.INVALID_PARAMS, f"no resource '{params.uri}'")
    contents = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)
    return types.ReadResourceResult(contents=[contents])


async def subscribe(_context: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
    subscribed.add(params.uri)
    return types.EmptyResult()


async def unsubscribe(_context: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    subscribed.discard(params.uri)
    return types.EmptyResult()


async def set_level(_context: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    global level
    level = params.level
    return types.EmptyResult()


async def list_prompts(_context: Any, _params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[types.Prompt.model_validate(prompt) for prompt in offer.PROMPTS])


async def get_prompt(_context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    text = types.TextContent(type="text", text=offer.greeting(params.arguments))
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])


async def complete(_context: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion.model_validate(offer.completion(params.argument.value)))


server: Server[Any] = Server(
    "tour-python2",
    version="1.0.0",
    instructions="Take the tour.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=unsubscribe,
    on_subscriptions_listen=ListenHandler(bus),
    on_set_logging_level=set_level,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
)


async def main() -> None:
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as streams:
        await server.run(*streams, options)


anyio.run(main)
