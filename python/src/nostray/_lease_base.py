"""What ``Lease`` and ``AsyncLease`` have in common: how a lease is opened, and who handles what comes from the child."""

from __future__ import annotations

import os
import weakref
from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Callable, Literal, Optional, TypeVar, Union, overload

from ._errors import CallError, LeaseError
from ._front import Front
from ._options import share_words

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import ShareOptions, Word

Handler = Callable[[str, Any], Any]
"""Takes a method and its params."""
Hook = Callable[[int], Any]
"""Takes the number of a generation."""
HandlerT = TypeVar("HandlerT", bound=Handler)
HookT = TypeVar("HookT", bound=Hook)

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603


@dataclass
class Entry:
    """A handler or a hook, and the event loop in which it runs, if it does not run in a thread."""

    method: Optional[str]
    run: Callable[..., Any]
    loop: Optional[AbstractEventLoop]
    last_generation: int = 0


class LeaseBase:
    """A hold on one child that all holders of a key share."""

    def __init__(
        self,
        command: Union[Word, Sequence[Word]],
        *,
        key: Optional[str] = None,
        protocol: Literal["mcp", "jsonrpc"] = "mcp",
        handshake: bool = True,
        client_info: Optional[Mapping[str, Any]] = None,
        protocol_version: str = "2025-06-18",
        capabilities: Optional[Mapping[str, Any]] = None,
        respawn: bool = True,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[Union[str, os.PathLike[str]]] = None,
        stderr: Union[None, int, IO[Any]] = None,
        **options: Unpack[ShareOptions],
    ) -> None:
        """Hold the child of this command, which starts if no other lease holds it. Does not wait for it; calls do.

        ``key`` names what is shared; without it, leases with the same command, directory and environment share. With ``protocol="mcp"``
        the lease shakes hands by itself, unless ``handshake`` is false. The other options are those of ``nostray share``.
        """
        if protocol not in ("mcp", "jsonrpc"):
            raise ValueError(f"protocol is {protocol!r}; it can be 'mcp' or 'jsonrpc'")
        mcp = protocol == "mcp"
        hello = {
            "protocolVersion": protocol_version,
            "capabilities": dict(capabilities or {}),
            "clientInfo": dict(client_info or {"name": "nostray", "version": "1"}),
        }
        self._answers_pings = mcp
        self._notification_handlers: tuple[Entry, ...] = ()
        self._request_handlers: tuple[Entry, ...] = ()
        self._hooks: tuple[Entry, ...] = ()
        session = options.get("session")
        self._prepare()
        # Handlers refer to their lease, and the I/O thread to the front. So the front must not refer to the lease, or a lease that its
        # host has dropped would never end.
        self._front = Front(
            share_words({"key": key, "protocol": protocol, "respawn": respawn, **options}),
            [command] if isinstance(command, (str, bytes, os.PathLike)) else command,
            hello=hello if mcp and handshake else None,
            cancel=_cancelled if mcp else _cancel_request,
            owner=weakref.ref(self),
            session=str(session) if session else None,
            env=env,
            cwd=cwd,
            stderr=stderr,
        )
        # When it is dropped, and when the interpreter exits.
        weakref.finalize(self, self._front.close)

    @property
    def generation(self) -> int:
        """Which child this is; 0 before the first one. Each new child has a higher number."""
        return self._front.generation

    @property
    def server(self) -> Optional[dict[str, Any]]:
        """What an MCP server answered to the handshake. None before that."""
        return self._front.server

    @property
    def id(self) -> Optional[str]:
        """The child's id, by which ``nostray ps`` and ``nostray log`` know it. None before the lease is attached."""
        return self._front.id

    @property
    def alone(self) -> Optional[str]:
        """Why this lease has a child of its own, if there was no way to a shared one."""
        return self._front.alone

    @property
    def ended(self) -> Optional[str]:
        """Why this lease is over, if it is: it was closed, or no child follows."""
        return self._front.ended

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self._front.notify(method, params)

    @overload
    def on_notification(self, method: Optional[str]) -> Callable[[HandlerT], HandlerT]: ...
    @overload
    def on_notification(self, method: Optional[str], handler: HandlerT) -> HandlerT: ...
    def on_notification(self, method: Optional[str], handler: Any = None) -> Any:
        """Call ``handler(method, params)`` for each notification with this method, or with any if it is None, in order.

        Without a handler, it is a decorator.
        """

        def add(handler: Any) -> Any:
            self._front.check_process()
            self._notification_handlers += (Entry(method, handler, self._place()),)
            return handler

        return add if handler is None else add(handler)

    @overload
    def on_request(self, method: Optional[str]) -> Callable[[HandlerT], HandlerT]: ...
    @overload
    def on_request(self, method: Optional[str], handler: HandlerT) -> HandlerT: ...
    def on_request(self, method: Optional[str], handler: Any = None) -> Any:
        """Answer each request of the child with this method, or with any if it is None, by what ``handler(method, params)`` returns.

        Several handlers are asked in order: one that raises ``Decline`` leaves the request to the next. ``CallError`` is answered as it
        is, another exception as an internal error. A handler may make calls. Without a handler, it is a decorator.
        """

        def add(handler: Any) -> Any:
            self._front.check_process()
            self._request_handlers += (Entry(method, handler, self._place()),)
            return handler

        return add if handler is None else add(handler)

    def on_generation(self, hook: HookT) -> HookT:
        """Call ``hook(generation)`` once for each child, in order: for the child that is there, and for each that follows."""
        self._front.check_process()
        entry = Entry(None, hook, self._place())
        self._hooks += (entry,)
        if self.generation:
            self._submit_hook(entry, self.generation)
        return hook

    # What comes from the child, in the I/O thread.

    def _on_notification(self, method: str, params: Any) -> None:
        def run(entry: Entry) -> Any:
            return None if self._front.closed else self._run(entry, method, params)

        for entry in self._notification_handlers:
            if entry.method is None or entry.method == method:
                self._submit("note", entry, partial(run, entry))

    def _on_request(self, number: Any, method: str, params: Any) -> None:
        entries = [entry for entry in self._request_handlers if entry.method is None or entry.method == method]
        self._ask(number, method, params, entries)

    def _on_generation(self, generation: int) -> None:
        for entry in self._hooks:
            self._submit_hook(entry, generation)

    def _submit_hook(self, entry: Entry, generation: int) -> None:
        def run() -> Any:
            if self._front.closed or entry.last_generation >= generation:
                return None
            entry.last_generation = generation
            return self._run(entry, generation)

        self._submit("hook", entry, run)

    def _run(self, entry: Entry, *args: Any) -> Any:
        """Run a handler. That the holder closes the lease during a call of the handler is no failure of the handler."""
        try:
            return entry.run(*args)
        except LeaseError:
            if not self._front.closed:
                raise

    # What the two do differently.

    def _prepare(self) -> None:
        """Make what runs handlers."""
        raise NotImplementedError

    def _place(self) -> Optional[AbstractEventLoop]:
        """Return where a handler runs that is registered now."""
        raise NotImplementedError

    def _submit(self, kind: Literal["note", "hook"], entry: Entry, job: Callable[[], Any]) -> None:
        """Have this done, after what was submitted before with the same kind."""
        raise NotImplementedError

    def _ask(self, number: Any, method: str, params: Any, entries: list[Entry]) -> None:
        """Have a request answered by the first of these that does not decline."""
        raise NotImplementedError

    # Answers to requests.

    def _reply(self, number: Any, result: Any) -> None:
        try:
            self._front.respond(number, result=result)
        except (TypeError, ValueError) as error:
            self._reply_failed(number, error)

    def _reply_failed(self, number: Any, error: Exception) -> None:
        if not isinstance(error, CallError):
            error = CallError(INTERNAL_ERROR, str(error) or type(error).__name__)
        self._front.respond(number, error=error)

    def _reply_declined(self, number: Any, method: str) -> None:
        if self._answers_pings and method == "ping":
            self._front.respond(number, result={})
        else:
            self._front.respond(number, error=CallError(METHOD_NOT_FOUND, f"the host has no handler for {method}"))


def _cancelled(number: int) -> tuple[str, Any]:
    return "notifications/cancelled", {"requestId": number, "reason": "the caller does not wait any longer"}


def _cancel_request(number: int) -> tuple[str, Any]:
    return "$/cancelRequest", {"id": number}
