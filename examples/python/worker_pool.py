"""A pool of workers, one for each session, as a gateway keeps them for slash commands.

A worker starts with the first command of its session, and ends when the session disconnects, when it was idle for too long, or when
the gateway ends, however it ends. Its whole tree ends with it.

    python worker_pool.py                 # lines "SESSION COMMAND" on stdin; "SESSION /bye" disconnects
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Optional

import nostray

WORKER = [sys.executable, __file__, "--worker"]


class WorkerPool:
    """The workers of one gateway."""

    def __init__(self, idle_timeout: float = 600) -> None:
        self._idle_timeout = idle_timeout
        self._workers: dict[str, nostray.Popen[str]] = {}
        self._lock = threading.Lock()

    def ask(self, session: str, command: str) -> str:
        """Have a command done by the worker of this session."""
        answer = self._try(session, command)
        if answer is None:
            # It has just ended, for want of work.
            self.disconnect(session)
            answer = self._try(session, command)
        return answer or "the worker failed"

    def _try(self, session: str, command: str) -> Optional[str]:
        worker = self._worker(session)
        assert worker.stdin is not None and worker.stdout is not None
        try:
            worker.stdin.write(command + "\n")
            worker.stdin.flush()
        except BrokenPipeError:
            return None
        return worker.stdout.readline().rstrip("\n") or None

    def disconnect(self, session: str) -> None:
        """End what this session has."""
        with self._lock:
            worker = self._workers.pop(session, None)
        if worker is not None:
            # Its input ends, it gets its graces, and nothing of its tree is left.
            with suppress(BrokenPipeError), worker:
                pass

    def _worker(self, session: str) -> nostray.Popen[str]:
        with self._lock:
            worker = self._workers.get(session)
            if worker is None:
                worker = self._workers[session] = nostray.Popen(
                    WORKER,
                    stdin=nostray.PIPE,
                    stdout=nostray.PIPE,
                    text=True,
                    session=session,
                    labels={"role": "slash-worker"},
                    idle_timeout=self._idle_timeout,
                    eof_grace=1,
                )
            return worker


def work() -> None:
    """What a worker does. It would end with its parent also if nostray had not started it."""
    nostray.parent.die_with()
    for number, line in enumerate(sys.stdin, 1):
        print(f"{number}: {line.strip().upper()}", flush=True)


def main() -> None:
    pool = WorkerPool(idle_timeout=float(sys.argv[1]) if len(sys.argv) > 1 else 600)
    for line in sys.stdin:
        session, _, command = line.strip().partition(" ")
        if command == "/bye":
            pool.disconnect(session)
            print("disconnected", flush=True)
        else:
            print(pool.ask(session, command), flush=True)


if __name__ == "__main__":
    work() if sys.argv[1:] == ["--worker"] else main()
