"""A small server as people write them: FastMCP of the Python SDK 1.x, and what it is called in 2.x."""

try:
    from mcp.server import MCPServer as FastMCP
except ImportError:
    from mcp.server.fastmcp import FastMCP

server = FastMCP("fast")


@server.tool()
async def echo(text: str) -> str:
    return text


server.run("stdio")
