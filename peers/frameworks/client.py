"""Runs the line of docs/python.md for one framework, and lists the tools of its server: client.py FRAMEWORK LINE."""

import asyncio
import sys
from typing import Any

import nostray

framework, line = sys.argv[1:]


def run(*imports: str) -> Any:
    """The value of the line, with these imports."""
    names: dict[str, Any] = {"nostray": nostray}
    for statement in imports:
        exec(statement, names)
    return eval(line, names)


SDK = "from mcp import StdioServerParameters"


async def tools() -> list[str]:
    if framework == "FastMCP":
        async with run("from fastmcp import Client") as client:
            return [tool.name for tool in await client.list_tools()]
    if framework == "FastMCP, a transport":
        from fastmcp import Client

        async with Client(run("from fastmcp.client.transports import StdioTransport")) as client:
            return [tool.name for tool in await client.list_tools()]
    if framework == "OpenAI Agents SDK":
        async with run("from agents.mcp import MCPServerStdio") as server:
            return [tool.name for tool in await server.list_tools()]
    if framework == "LangChain MCP adapters":
        client = run("from langchain_mcp_adapters.client import MultiServerMCPClient")
        return [tool.name for tool in await client.get_tools()]
    if framework == "Pydantic AI":
        async with run("from fastmcp.client.transports import StdioTransport", "from pydantic_ai.mcp import MCPToolset") as server:
            return [tool.name for tool in await server.list_tools()]
    if framework == "AutoGen":
        from autogen_ext.tools.mcp import mcp_server_tools

        return [tool.name for tool in await mcp_server_tools(run("from autogen_ext.tools.mcp import StdioServerParams"))]
    if framework == "Google ADK":
        from google.adk.tools.mcp_tool import McpToolset

        toolset = McpToolset(connection_params=run(SDK, "from google.adk.tools.mcp_tool import StdioConnectionParams"))
        try:
            return [tool.name for tool in await toolset.get_tools()]
        finally:
            await toolset.close()
    if framework == "LlamaIndex":
        client = run("from llama_index.tools.mcp import BasicMCPClient")
        return [tool.name for tool in (await client.list_tools()).tools]
    raise SystemExit(f"no code for {framework}")


if framework == "CrewAI":
    with run(SDK, "from crewai_tools import MCPServerAdapter") as adapter:
        found = [tool.name for tool in adapter]
else:
    found = asyncio.run(tools())
if found != ["echo"]:
    raise SystemExit(f"the server has the tool echo, and {framework} found {found}")
