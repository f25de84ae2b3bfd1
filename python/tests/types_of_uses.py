"""What a host writes, for the type checkers: each line must have the type that its reader expects. It is not run."""
# mypy: disable-error-code="unused-ignore"

from __future__ import annotations

import asyncio
import subprocess
from typing import Any, Optional

import nostray
import nostray.asyncio
import nostray.mcp


def popen() -> None:
    raw: nostray.Popen[bytes] = nostray.Popen(["true"], stdout=nostray.PIPE, session="s", labels={"a": "b"}, term_grace=3)
    text: nostray.Popen[str] = nostray.Popen("true", shell=True, text=True, ready={"port": 8080})
    out: tuple[str, str] = text.communicate()
    code: Optional[int] = raw.poll()
    end: Optional[nostray.Exit] = raw.exit
    done: subprocess.CompletedProcess[str] = nostray.run(["true"], capture_output=True, text=True, check=True, timeout=3)
    print(out, code, end and end.reason, done.stdout.strip())
    nostray.Popen(["true"], no_such_option=1)  # type: ignore  # pyright: ignore


async def processes() -> None:
    process = await nostray.asyncio.create_subprocess_exec(
        "true", stdout=asyncio.subprocess.PIPE, slot="memory", if_taken="replace"
    )
    code: int = await process.wait()
    end: Optional[nostray.Exit] = process.exit
    print(code, end)


def lease() -> None:
    with nostray.Lease(["memory-bridge"], key="memory", protocol="jsonrpc", linger=5, route_by=["params.sessionId"]) as lease:

        @lease.on_request("host.llm.complete")
        def complete(method: str, params: Any) -> dict[str, str]:
            raise nostray.Decline

        generation: int = lease.generation
        result: Any = lease.call("memory.search", {"query": "x"}, timeout=5)
        kept: dict[str, str] = complete("a", None)
        print(generation, result, kept)
        lease.on_generation(lambda generation: lease.notify("hello"))
        lease.restart()


async def async_lease() -> None:
    async with nostray.AsyncLease("some-server", client_info={"name": "host", "version": "1"}) as lease:
        await lease.ready(timeout=5)

        @lease.on_notification(None)
        async def told(method: str, params: Any) -> None: ...

        tools: Any = await lease.call("tools/list")
        print(tools, lease.server)


def rest() -> None:
    with nostray.Session("chat-17") as session, nostray.Slot("memory", "replace", timeout=3, on_asked=print):
        children: list[nostray.registry.Child] = nostray.registry.list(session=session)
        stopped: bool = nostray.registry.stop("memory", now=True)
        for event in nostray.registry.watch(session=session):
            print(event.event, event.raw)
        print(children[0].pid, stopped, nostray.registry.sweep(dry_run=True)[0].outcome)
    nostray.parent.watch(lambda: None).cancel()
    nostray.parent.die_with()
    words: list[str] = nostray.command("npx", "-y", "some-server", share="memory", hibernate="10m")
    print(words, nostray.wrap("npx", ["-y", "some-server"], share=True)["command"])
