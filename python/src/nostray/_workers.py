"""Threads for the handlers of a lease: started when there is work, gone when there was none for a second."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Callable

_log = logging.getLogger("nostray")

_LINGER = 1.0


class Workers:
    """At most ``limit`` threads. With one, jobs run in order."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Its lock may be taken again by the same thread: see _front.
        self._changed = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._idle = 0
        self._busy: set[int] = set()

    def submit(self, job: Callable[[], None]) -> None:
        """Have this done."""
        with self._changed:
            self._jobs.append(job)
            if self._idle:
                self._changed.notify()
                return
            if self._threads == self._limit:
                return
            self._threads += 1
        threading.Thread(target=self._work, name="nostray-handler", daemon=True).start()

    def clear(self, patience: float) -> None:
        """Drop what has not begun, and wait until what has begun is done: not longer than this, since it may wait for the caller."""
        deadline = time.monotonic() + patience
        with self._changed:
            self._jobs.clear()
            while self._busy - {threading.get_ident()}:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return

    def _work(self) -> None:
        me = threading.get_ident()
        while True:
            with self._changed:
                if not self._jobs:
                    self._idle += 1
                    self._changed.wait_for(lambda: self._jobs, _LINGER)
                    self._idle -= 1
                if not self._jobs:
                    self._threads -= 1
                    return
                job = self._jobs.popleft()
                self._busy.add(me)
            try:
                job()
            except Exception:
                _log.exception("a handler of a lease failed")
            finally:
                # Before it waits for more: what it holds would outlive its use.
                del job
                with self._changed:
                    self._busy.discard(me)
                    self._changed.notify_all()
