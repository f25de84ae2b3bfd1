"""What every server of the tour offers: the same in every SDK, so that any client can take the tour anywhere."""

from typing import Any

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOGGED = ["debug", "info", "warning", "error"]
NAME_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def _tool(name: str, **properties: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {each: {"type": kind} for each, kind in properties.items()}}
    return {"name": name, "description": f"The tool {name} of the tour.", "inputSchema": schema}


TOOLS = [
    _tool("add", a="integer", b="integer"),
    _tool("echo", text="string"),
    _tool("work", steps="integer"),
    _tool("wait", seconds="integer"),
    _tool("cancelled"),
    _tool("sample", prompt="string"),
    _tool("ask", question="string"),
    _tool("roots"),
    _tool("log"),
    _tool("touch", uri="string"),
    _tool("announce"),
    _tool("die"),
]
RESOURCES = [
    {"uri": "test://greeting", "name": "greeting", "mimeType": "text/plain"},
    {"uri": "test://farewell", "name": "farewell", "mimeType": "text/plain"},
]
TEMPLATES = [{"uriTemplate": "test://items/{id}", "name": "item", "mimeType": "text/plain"}]
PROMPTS = [{"name": "greet", "description": "A greeting.", "arguments": [{"name": "name", "required": True}]}]


def logged(level: str, arguments: dict[str, Any]) -> str:
    """What the tool `log` says. Who shares a server says for whom."""
    return f"this is {level} for {arguments['name']}" if "name" in arguments else f"this is {level}"


def resource(uri: str) -> str | None:
    texts = {"test://greeting": "hello", "test://farewell": "goodbye"}
    return f"item {uri.rpartition('/')[2]}" if uri.startswith("test://items/") else texts.get(uri)


def greeting(arguments: dict[str, str] | None) -> str:
    return f"Say hello to {(arguments or {}).get('name')}."


def completion(value: str) -> dict[str, Any]:
    found = [name for name in ("alice", "anna", "bob") if name.startswith(value)]
    return {"values": found, "total": len(found), "hasMore": False}
