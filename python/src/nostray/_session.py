"""All children of one conversation, connection or task, to end them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from . import registry
from ._front import close_session

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class Session:
    """Names what children belong to: ``nostray.Popen(..., session=session)``. Closing it ends them, also those of other processes."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __str__(self) -> str:
        return self.key

    def __repr__(self) -> str:
        return f"Session({self.key!r})"

    def close(self, *, now: bool = False) -> None:
        """End all children with this session, and wait until nothing is left of them. Of a shared child, end this session's leases."""
        # A lease is on record only a moment after it was opened.
        close_session(self.key)
        registry.stop(session=self.key, now=now)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()
