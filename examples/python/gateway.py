"""A gateway that reloads its servers: those that stay in the configuration stay connected, and nothing of the others is left.

    python gateway.py servers.json        # "reload" or "SERVER METHOD" on stdin

The file names MCP servers as hosts do: {"mcpServers": {"memory": {"command": "uvx", "args": ["memory-server"]}}}
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import nostray


class Gateway:
    """The servers of one configuration."""

    def __init__(self, configuration: Path) -> None:
        self._configuration = configuration
        self._servers: dict[str, tuple[Any, nostray.AsyncLease]] = {}

    def reload(self) -> list[str]:
        """Follow the configuration. Nothing is awaited in here, so a reload cannot be cancelled in the middle."""
        wanted = json.loads(self._configuration.read_text())["mcpServers"]
        for name, (entry, lease) in list(self._servers.items()):
            if wanted.get(name) != entry:
                del self._servers[name]
                lease.close()
        for name, entry in wanted.items():
            if name not in self._servers:
                lease = nostray.AsyncLease(
                    [entry["command"], *entry.get("args", [])], client_info={"name": "gateway", "version": "1"}
                )
                self._servers[name] = (entry, lease)
        return sorted(self._servers)

    async def call(self, server: str, method: str) -> Any:
        """Call a method of a server. A server that crashes is replaced, and calls wait for the next one."""
        _entry, lease = self._servers[server]
        return await lease.call(method, timeout=60)


async def main() -> None:
    gateway = Gateway(Path(sys.argv[1]))
    gateway.reload()
    loop = asyncio.get_running_loop()
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        if line == "reload":
            print(*gateway.reload(), flush=True)
        else:
            server, method = line.split()
            print(json.dumps(await gateway.call(server, method)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
