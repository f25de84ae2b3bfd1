"""A memory provider whose bridge is shared: however many providers a host makes, and whether or not it closes them, there is one bridge.

The bridge asks back: it has the host's model complete text. A bridge that crashes is replaced once for all providers, and each provider
opens its session with the new bridge again.

    python memory_provider.py COMMAND...  # the command of a bridge; lines to remember on stdin
"""

from __future__ import annotations

import sys
from typing import Any, Callable

import nostray


class MemoryProvider:
    """What an agent uses to remember."""

    def __init__(self, command: list[str], session: str, complete: Callable[[str], str]) -> None:
        self._session = session
        self._bridge = nostray.Lease(
            command,
            key="memory",
            protocol="jsonrpc",
            session=session,
            # A request of the bridge names the session that it is for.
            route_by=["params.sessionId"],
        )

        @self._bridge.on_request("host.llm.complete")
        def answer(method: str, params: Any) -> Any:
            if params["sessionId"] != session:
                raise nostray.Decline
            return {"text": complete(params["prompt"])}

        # Once for each bridge: the first one, and the one after a crash.
        self._bridge.on_generation(lambda generation: self._bridge.call("session.open", {"sessionId": session}))

    def remember(self, text: str) -> Any:
        """Store a text; the bridge asks back for a summary."""
        return self._bridge.call("memory.add", {"sessionId": self._session, "text": text}, timeout=60)

    def close(self) -> None:
        """Give the bridge up. An agent that forgets this loses nothing but the time until its end."""
        self._bridge.close()


def main() -> None:
    # Three providers of one host, as reloads and reconnects leave them.
    providers = [MemoryProvider(sys.argv[1:], f"chat-{number}", complete=str.upper) for number in range(3)]
    for number, line in enumerate(sys.stdin):
        print(providers[number % 3].remember(line.strip()), flush=True)


if __name__ == "__main__":
    main()
