"""The options of the program as keyword arguments, and how they are written on its command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

from ._program import find_program

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._session import Session

# Seconds, or what the program itself reads, like "2s" or "5m".
Time = Union[float, timedelta, str]
Word = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Ready(TypedDict, total=False):
    """When a child is ready: the first of these that is met; ``timeout`` ends a child that is not ready by then."""

    line: str
    port: Union[int, str]
    file: Union[str, os.PathLike[str]]
    cmd: str
    notify: bool
    timeout: Time


class CommonOptions(TypedDict, total=False):
    """What a child belongs to, and how it ends."""

    session: Union[str, Session, None]
    labels: Mapping[str, str]
    eof_grace: Time
    term_grace: Time
    die_with: Union[int, Sequence[int]]
    isolate: Literal["pid", None]


class RunOptions(CommonOptions, total=False):
    """Options of ``nostray run`` for a direct child."""

    idle_timeout: Time
    slot: str
    if_taken: Literal["wait", "fail", "replace"]
    wait_timeout: Time
    max_handovers: str
    ready: Ready


class KeepOptions(TypedDict, total=False):
    """Options for a supervised child."""

    backoff: str
    max_failures: str
    hibernate: Time
    max_memory: Union[int, str]
    max_age: Time
    start_timeout: Time
    call_timeout: Time
    replay: Union[str, Sequence[str]]
    max_line: Union[int, str]


class ShareOptions(CommonOptions, KeepOptions, total=False):
    """Options of ``nostray share``."""

    share_env: Union[str, Sequence[str]]
    any_dir: bool
    linger: Time
    require_share: bool
    reverse: Literal["certain", "newest"]
    route_by: Union[str, Sequence[str]]


class CommandOptions(RunOptions, ShareOptions, total=False):
    """Options of either command."""

    respawn: bool
    lazy: bool
    protocol: Literal["mcp", "jsonrpc"]


_TIMES = frozenset("eof_grace term_grace idle_timeout wait_timeout hibernate max_age start_timeout call_timeout linger".split())
_ONE_WORD = frozenset(("share_env", "route_by"))


def duration(time: Time) -> str:
    """Return a time as the program reads it."""
    if isinstance(time, str):
        return time
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    return f"{max(0, round(seconds * 1000))}ms"


def moment_ago(time: Time) -> str:
    """Return the moment that was this time ago, as the program reads it."""
    if isinstance(time, str):
        return time
    ago = time if isinstance(time, timedelta) else timedelta(seconds=time)
    return (datetime.now(timezone.utc) - max(ago, timedelta(0))).isoformat(timespec="milliseconds")


def words(options: Mapping[str, Any], known: frozenset[str]) -> list[str]:
    """Return options as words of a command line. An unknown one is a ``TypeError``, as for any function."""
    unknown = options.keys() - known
    if unknown:
        raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")
    return [word for name, value in options.items() for word in _option(name, value)]


def _option(name: str, value: Any) -> Iterator[str]:
    flag = "--" + name.replace("_", "-")
    if value is None or value is False:
        # Only of this one the opposite has a meaning.
        if name == "respawn" and value is False:
            yield "--no-respawn"
    elif value is True:
        yield flag
    elif name == "labels":
        for label, text in value.items():
            yield from ("--label", f"{label}={text}")
    elif name == "ready":
        for what, how in value.items():
            yield from _option(f"ready_{what}", duration(how) if what == "timeout" else how)
    elif name in _TIMES:
        yield from (flag, duration(value))
    elif isinstance(value, (list, tuple)):
        if name in _ONE_WORD:
            yield from (flag, ",".join(value))
        else:
            for each in value:
                yield from (flag, str(each))
    else:
        yield from (flag, os.fspath(value) if isinstance(value, os.PathLike) else str(value))


def share_words(options: Mapping[str, Any]) -> list[str]:
    """Return the words of ``nostray share`` up to the command. Without a word about it, a child ends with its last holder."""
    known = ShareOptions.__optional_keys__ | {"key", "protocol", "respawn"}
    return [find_program(), "share", *words({"linger": 0, **options}, known)]


def run_words(options: Mapping[str, Any]) -> list[str]:
    """Return the words of ``nostray run`` up to the command."""
    known = RunOptions.__optional_keys__ | KeepOptions.__optional_keys__ | {"respawn", "lazy", "protocol"}
    return [find_program(), "run", *words(options, known)]


def command(program: str, *args: str, share: Union[bool, str] = False, **options: Unpack[CommandOptions]) -> list[str]:
    """Return the command line that starts ``program`` under nostray.

    With ``share``, all callers with the same command, directory and environment use one child; with a text for ``share``, all callers
    with that key do.
    """
    if share is False:
        return [*run_words(options), "--", program, *args]
    if isinstance(share, str):
        return [*share_words({"key": share, **options}), "--", program, *args]
    return [*share_words(options), "--", program, *args]


class Wrapped(TypedDict):
    """A command as most frameworks take it."""

    command: str
    args: list[str]


def wrap(program: str, args: Sequence[str] = (), *, share: Union[bool, str] = False, **options: Unpack[CommandOptions]) -> Wrapped:
    """Return ``command`` and ``args`` for a framework that starts a server by these: ``**nostray.wrap("npx", ["-y", "some-server"])``."""
    first, *rest = command(program, *args, share=share, **options)
    return {"command": first, "args": rest}
