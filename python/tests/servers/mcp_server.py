"""A small MCP server as people write them, with the SDK 1.x or 2.x."""

import os
from typing import Any

import anyio

Server: Any
try:
    from mcp.server import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server

with open(os.environ["BRIDGE_RECORD"], "a") as file:
    file.write(f"{os.getpid()}\n")

server = Server("small")


@server.tool()
async def echo(text: str) -> str:
    return text


@server.tool()
async def pid() -> str:
    return str(os.getpid())


@server.tool()
async def hang() -> str:
    await anyio.sleep(3600)
    return "never"


@server.tool()
async def die() -> str:
    os._exit(3)


server.run("stdio")
