"""The drop-in for the MCP SDK's ``stdio_client``, with real clients and servers of the SDK 1.x or 2.x, and leases beside them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import nostray
from conftest import MCP_SERVER, Scene, until

pytest.importorskip("mcp", reason="the MCP SDK is not here")
pytestmark = [
    pytest.mark.sdk,
    # The SDK 1.x does not close its streams if it is cancelled while it starts a server.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

from mcp import ClientSession, StdioServerParameters  # noqa: E402
from mcp.client.stdio import stdio_client as direct  # noqa: E402

from nostray.mcp import contained, stdio_client  # noqa: E402


def parameters() -> StdioServerParameters:
    # The SDK passes on a few variables only, and the scene is found by another one.
    return StdioServerParameters(command=MCP_SERVER[0], args=MCP_SERVER[1:], env=dict(os.environ))


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[ClientSession]:
    async with stdio_client(parameters(), **options) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def text(session: ClientSession, tool: str, **arguments: Any) -> str:
    result: Any = await session.call_tool(tool, arguments)
    return str(result.content[0].text)


def test_the_client_of_the_sdk_works_through_it_as_through_its_own(scene: Scene) -> None:
    async def main() -> None:
        answers = []
        for client in (direct, stdio_client):
            async with client(parameters()) as (read, write), ClientSession(read, write) as session:
                hello: Any = await session.initialize()
                tools = await session.list_tools()
                answers.append((hello.model_dump(), tools.model_dump(), await text(session, "echo", text="ä\u2028")))
        assert answers[0] == answers[1]

    asyncio.run(main())
    scene.empty()


def test_shared_clients_have_one_server_in_one_host_and_in_two(scene: Scene) -> None:
    async def main() -> None:
        async with connected(share=True) as one, connected(share=True) as two, connected(share="key") as other:
            assert await text(one, "pid") == await text(two, "pid") != await text(other, "pid")
            assert len(scene.servers()) == 2

    asyncio.run(main())
    scene.empty()


def test_a_lease_and_a_client_of_the_sdk_share_a_server(scene: Scene) -> None:
    async def main() -> None:
        async with connected(share="memory") as session:
            pid = await text(session, "pid")
            async with nostray.AsyncLease(MCP_SERVER, key="memory", protocol_version="2025-11-25") as lease:
                await lease.ready(20)
                assert [tool["name"] for tool in (await lease.call("tools/list"))["tools"]] == ["echo", "pid", "hang", "die"]
                answer = await lease.call("tools/call", {"name": "pid", "arguments": {}})
                assert answer["content"][0]["text"].isdigit() and scene.starts()[0] == int(pid)

    asyncio.run(main())
    scene.empty()


def test_parameters_can_be_wrapped_for_anything_that_takes_them(scene: Scene) -> None:
    wrapped = contained(
        StdioServerParameters(command="npx", args=["-y", "some-server"], env={"A": "b"}), share="memory", session="chat"
    )
    assert [wrapped.command, *wrapped.args] == nostray.command("npx", "-y", "some-server", share="memory", session="chat")
    assert wrapped.env is not None and wrapped.env["A"] == "b" and wrapped.env["XDG_RUNTIME_DIR"] == os.environ["XDG_RUNTIME_DIR"]


def test_a_program_that_does_not_exist_ends_the_connection(scene: Scene) -> None:
    async def main() -> None:
        with pytest.raises(Exception) as failed:
            async with stdio_client(StdioServerParameters(command="/no/such/server")) as (read, write):
                async with ClientSession(read, write) as session:
                    await asyncio.wait_for(session.initialize(), 20)
        assert not isinstance(failed.value, TimeoutError)

    asyncio.run(main())


def test_a_host_that_abandons_three_providers_has_one_server(scene: Scene) -> None:
    host = scene.host(
        f"""
        import asyncio, os, sys, time
        import nostray
        from mcp import ClientSession, StdioServerParameters
        from nostray.mcp import stdio_client

        async def provider(forever):
            server = StdioServerParameters(command={MCP_SERVER[0]!r}, args={MCP_SERVER[1:]!r}, env=dict(os.environ))
            async with stdio_client(server, share="memory") as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                # Initialising twice is a mistake of many hosts.
                await session.initialize()
                print((await session.call_tool("pid", {{}})).content[0].text, flush=True)
                await forever.wait()

        async def main():
            forever = asyncio.Event()
            tasks = [asyncio.create_task(provider(forever)) for _ in range(3)]
            await forever.wait()

        asyncio.run(main())
        """
    )
    pids = {host.line() for _ in range(3)}
    assert len(pids) == 1 and scene.servers() == [int(pids.pop())]
    host.kill()
    scene.empty()


def test_a_client_that_is_cancelled_in_the_middle_of_a_connect_leaves_nothing(scene: Scene) -> None:
    async def connect() -> None:
        async with connected(share="memory") as session:
            await session.call_tool("hang", {})

    async def main() -> None:
        for delay in (0.01, 0.1, 0.5):
            task = asyncio.ensure_future(connect())
            await asyncio.sleep(delay)
            task.cancel()
            # The SDK 1.x may raise an error of its own instead.
            with pytest.raises(BaseException):  # noqa: B017
                await task

    asyncio.run(main())
    scene.empty()


def test_a_server_that_is_killed_comes_back_once_for_all_clients(scene: Scene) -> None:
    async def main() -> None:
        async with connected(share="memory") as one, connected(share="memory") as two:
            scene.kill_server(int(await text(one, "pid")))
            pids = await asyncio.gather(text(one, "pid"), text(two, "pid"))
            assert pids[0] == pids[1] and len(scene.starts()) == 2

    asyncio.run(main())
    scene.empty()


def test_a_host_of_the_sdk_that_is_killed_leaves_nothing(scene: Scene) -> None:
    code = f"""
        import asyncio, os
        from mcp import ClientSession, StdioServerParameters
        from nostray.mcp import stdio_client
        async def main():
            server = StdioServerParameters(command={MCP_SERVER[0]!r}, args={MCP_SERVER[1:]!r}, env=dict(os.environ))
            async with stdio_client(server, term_grace=0) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                print("up", flush=True)
                END
        asyncio.run(main())
    """
    for end in ("await asyncio.sleep(1000)", "os._exit(3)"):
        host = scene.host(code.replace("END", end))
        assert host.line() == "up"
        host.kill()
        scene.empty()


def test_a_lease_calls_a_server_of_the_sdk_over_its_death(scene: Scene) -> None:
    leases = [nostray.Lease(MCP_SERVER, key="memory") for _ in range(3)]

    def pid_of(lease: nostray.Lease) -> str:
        return str(lease.call("tools/call", {"name": "pid", "arguments": {}}, timeout=20)["content"][0]["text"])

    pids = {pid_of(lease) for lease in leases}
    assert len(pids) == 1
    scene.kill_server(int(pids.pop()))
    assert len({pid_of(lease) for lease in leases}) == 1 and len(scene.starts()) == 2
    with pytest.raises(nostray.ChildDied):
        leases[0].call("tools/call", {"name": "die", "arguments": {}})
    with pytest.raises(nostray.CallTimeout):
        leases[1].call("tools/call", {"name": "hang", "arguments": {}}, timeout=0.2)
    pid_of(leases[2])
    for lease in leases:
        lease.close()
    until(lambda: not scene.servers())
    assert len(scene.starts()) == 3
