"""``stdio_client`` of the MCP Python SDK, 1.x and 2.x, with the server's tree tied to this process. Needs the package ``mcp``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional, TextIO, Union

from mcp.client import stdio as _sdk

from ._options import command

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcp.client.stdio import StdioServerParameters
    from typing_extensions import Unpack

    from ._options import CommandOptions

# Where nostray keeps its records and slots. The SDK passes only a few variables on, and without these the server would be on record in
# another place than the other children of this host.
_PLACES = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME")


def contained(
    server: StdioServerParameters, *, share: Union[bool, str] = False, **options: Unpack[CommandOptions]
) -> StdioServerParameters:
    """Return these parameters so that the server runs under nostray, for anything that takes them."""
    first, *rest = command(server.command, *server.args, share=share, **options)
    places = {name: os.environ[name] for name in _PLACES if name in os.environ}
    return server.model_copy(update={"command": first, "args": rest, "env": {**places, **(server.env or {})}})


def stdio_client(
    server: StdioServerParameters,
    errlog: Optional[TextIO] = None,
    *,
    share: Union[bool, str] = False,
    **options: Unpack[CommandOptions],
) -> AbstractAsyncContextManager[Any]:
    """The SDK's ``stdio_client``. With ``share``, all hosts with the same command, directory and environment use one server; with a text
    for ``share``, all that use the same text.
    """
    wrapped = contained(server, share=share, **options)
    return _sdk.stdio_client(wrapped) if errlog is None else _sdk.stdio_client(wrapped, errlog)
