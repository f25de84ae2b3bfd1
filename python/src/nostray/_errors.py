"""What this package raises, beyond what Python itself raises."""

from __future__ import annotations

from typing import Any, Optional


class NostrayError(Exception):
    """The program ``nostray`` could not do what it was asked for; the message says why."""


class SlotTaken(NostrayError):
    """The slot was not to be had; nothing was started. The message names the holder."""


class LeaseError(NostrayError):
    """A lease cannot be used: it is closed, it is over, or it belongs to another process."""


class CallError(NostrayError):
    """The answer to a call is an error. A handler may raise it to answer a request of the child with an error of its choice."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ChildDied(CallError):
    """The child ended before it answered. The call was not made again; the next call goes to the next child."""

    @property
    def cause(self) -> str:
        """How it ended, like "exited with code 1"."""
        return str(self.data["nostray"]["cause"])

    @property
    def stderr(self) -> list[str]:
        """The last lines that it wrote to stderr."""
        return [str(line) for line in self.data["nostray"].get("stderr") or ()]


class CallTimeout(NostrayError, TimeoutError):
    """The answer did not come in time. The child was told that the call is cancelled."""


class Decline(Exception):
    """A request handler raises this to leave the request to the next handler."""


def call_error(error: Any) -> CallError:
    """Return the error of a JSON-RPC answer as an exception."""
    if not isinstance(error, dict):
        return CallError(-32603, str(error))
    code, message, data = error.get("code"), error.get("message"), error.get("data")
    told: Optional[object] = data.get("nostray") if isinstance(data, dict) else None
    kind = ChildDied if isinstance(told, dict) and "cause" in told else CallError
    return kind(code if isinstance(code, int) else -32603, message if isinstance(message, str) else "", data)
