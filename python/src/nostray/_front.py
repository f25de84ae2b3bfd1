"""One session with a shared child: its ``nostray share`` process, the JSON-RPC lines to and from it, and its status lines.

The process is the lease: the child lives while at least one such process lives, and this one ends with its socket or with this process.
So nothing here has to happen for a release, at exit least of all. A host's code can run in the middle of any line here, since the garbage
collector may call a ``__del__`` that closes or uses a lease: so ``close`` takes no lock, and everything else may be entered again.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from typing import IO, Any, Callable, Optional, Protocol, Union

from ._errors import CallError, LeaseError, call_error
from ._io import IoThread, io_thread
from ._program import find_program
from ._status import above_stdio, objects

Settle = Callable[[Any, Optional[Exception]], None]
"""Takes a result or an error, in the I/O thread."""

# A child that does not read for so long has a problem of its own.
_MAX_UNSENT = 256 << 20


class Owner(Protocol):
    """What a lease does with what comes from the child. It is called in the I/O thread, so it passes the work on."""

    def _on_notification(self, method: str, params: Any) -> None: ...
    def _on_request(self, number: Any, method: str, params: Any) -> None: ...
    def _on_generation(self, generation: int) -> None: ...


class Front:
    """The host's end of a session."""

    def __init__(
        self,
        words: list[str],
        command: Sequence[Any],
        *,
        hello: Optional[dict[str, Any]],
        cancel: Callable[[int], tuple[str, Any]],
        owner: weakref.ref[Any],
        session: Optional[str],
        env: Optional[Mapping[str, str]],
        cwd: Optional[Union[str, os.PathLike[str]]],
        stderr: Union[None, int, IO[Any]],
    ) -> None:
        self.pid = os.getpid()
        self.session = session
        self.closed = False
        """Set by ``close``. No callback follows."""
        self.over: Optional[str] = None
        """Why the session has ended, once it has."""
        self.id: Optional[str] = None
        self.generation = 0
        self.alone: Optional[str] = None
        self.server: Optional[dict[str, Any]] = None
        self._last_words = "its nostray process ended"
        self._env, self._cwd = env, cwd
        self._owner, self._cancel = owner, cancel
        self._lock = threading.RLock()
        self._numbers = count(1)
        self._calls: dict[int, Settle] = {}
        self._waiters: list[tuple[Callable[[], bool], Settle]] = []
        # What is to be said first, and what was asked for before the child has answered that.
        self._hello = hello
        self._hello_sent = False
        self._behind_hello: list[tuple[Optional[int], bytes]] = []
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._sending = self._wants_write = False
        self._received = bytearray()
        self._searched = 0
        self._status_rest = b""
        self.io: IoThread = io_thread()
        self._open(words, command, stderr)

    def _open(self, words: list[str], command: Sequence[Any], stderr: Union[None, int, IO[Any]]) -> None:
        # One socket for both directions: its shutdown reaches the front also if a forked process has a copy of it.
        ours, theirs = socket.socketpair()
        status, status_write = (above_stdio(fd) for fd in os.pipe())
        try:
            with theirs:
                front = subprocess.Popen(
                    [*words, "--status-fd", str(status_write), "--", *command],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=stderr,
                    env=self._env,
                    cwd=self._cwd,
                    pass_fds=(status_write,),
                    # Ctrl-C is the host's: it may go on.
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            os.close(status)
            raise
        finally:
            os.close(status_write)
        self.front_pid = front.pid
        # The I/O thread reaps it; this object shall neither do that nor warn that it is still running.
        front.returncode = 0
        ours.setblocking(False)
        os.set_blocking(status, False)
        self._socket, self._status, self._pidfd = ours, status, _pidfd_of(front.pid)
        _fronts.add(self)
        # In this order: the I/O thread may call back before the next one is added.
        self.io.add(self._socket.fileno(), self._serve_socket)
        self.io.add(self._status, self._serve_status)
        if self._pidfd >= 0:
            self.io.add(self._pidfd, self._reap)
        if self._hello is not None:
            self._say_hello()

    # Asking.

    def request(self, method: str, params: Any, settle: Settle) -> int:
        """Send a request; its answer goes to ``settle``. Returns its number."""
        number = next(self._numbers)
        line = _line(_message(method, params, number))
        # In this order: a close at any point of it either finds the call or is seen here.
        self._calls[number] = settle
        try:
            self._check()
            self._post(number, line)
        except BaseException:
            self._calls.pop(number, None)
            raise
        return number

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._check()
        self._post(None, _line(_message(method, params)))

    def respond(self, number: Any, *, result: Any = None, error: Optional[CallError] = None) -> None:
        """Answer a request of the child. An answer that comes too late has no receiver."""
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        if error is None:
            answer["result"] = result
        else:
            answer["error"] = {"code": error.code, "message": error.message}
            if error.data is not None:
                answer["error"]["data"] = error.data
        if self.ended is None:
            self._send(_line(answer))

    def cancel(self, number: int) -> bool:
        """Give a call up, and tell the child so. False if the call has just been settled."""
        if self._calls.pop(number, None) is None:
            return False
        with self._lock:
            held_back = [entry for entry in self._behind_hello if entry[0] == number]
            for entry in held_back:
                self._behind_hello.remove(entry)
        if not held_back and self.ended is None:
            self._send(_line(_message(*self._cancel(number))))
        return True

    def is_ready(self) -> bool:
        """Whether the child has answered the handshake, or without one whether it is there."""
        return self.generation > 0 if self._hello is None else self.server is not None

    def when(self, met: Callable[[], bool], settle: Settle) -> None:
        """Call back once this is met, or cannot be met any more."""
        self._waiters.append((met, settle))
        self._look()
        if self._hello is not None and self.ended is None:
            self._say_hello()

    def restart(self, wait: str) -> None:
        """Replace the child, for all sessions."""
        self._check()
        words = [find_program(), "restart", "--wait", wait, str(self.id)]
        # By the environment of the child, its record is found.
        done = subprocess.run(words, env=self._env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            raise LeaseError(done.stderr.strip() or "nostray restart failed")

    # Releasing.

    def close(self) -> None:
        """Release the child. The I/O thread settles the calls in flight."""
        self.closed = True
        if self.pid == os.getpid():
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def forget(self) -> None:
        """In a forked process: closes its copies, and leaves the session to the process that it belongs to."""
        self._socket.close()
        for fd in (self._status, self._pidfd):
            if fd >= 0:
                os.close(fd)
        self._status = self._pidfd = -1

    def check_process(self) -> None:
        """Refuse the use in a forked process."""
        if self.pid != os.getpid():
            raise LeaseError("this lease belongs to another process, of which this one is a fork; open one here")

    @property
    def ended(self) -> Optional[str]:
        """Why the session is over, if it is."""
        return "it was closed" if self.closed else self.over

    def _check(self) -> None:
        self.check_process()
        if self.ended is not None:
            raise self._why_over()

    def _why_over(self) -> LeaseError:
        return LeaseError(f"the lease is over: {self.ended}")

    # The I/O thread's part.

    def _serve_socket(self) -> None:
        with self._lock:
            self._flush()
        try:
            # Enough for a message, and for a long one not too many rounds.
            chunk = self._socket.recv(1 << 20 if self._received else 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._end()
            return
        self._received += chunk
        end = self._received.rfind(b"\n", self._searched)
        self._searched = len(self._received)
        if end < 0:
            return
        lines = self._received[: end + 1]
        del self._received[: end + 1]
        self._searched = len(self._received)
        for message in objects(lines):
            if self.closed:
                return
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str):
            owner: Optional[Owner] = self._owner()
            if owner is None:
                return
            if "id" in message:
                owner._on_request(number, method, message.get("params"))
            else:
                owner._on_notification(method, message.get("params"))
            return
        settle = self._calls.pop(number, None) if type(number) is int else None
        if settle is None:
            return
        if "error" in message:
            settle(None, call_error(message["error"]))
        else:
            settle(message.get("result"), None)

    def _say_hello(self) -> None:
        with self._lock:
            if self._hello_sent:
                return
            self._hello_sent = True
        number = next(self._numbers)
        self._calls[number] = self._greeted
        self._send(_line(_message("initialize", self._hello, number)))

    def _greeted(self, result: Any, error: Optional[Exception]) -> None:
        if error is not None:
            with self._lock:
                held_back, self._behind_hello = self._behind_hello, []
                # The next call tries again.
                self._hello_sent = False
            for number, _line_of_it in held_back:
                settle = self._calls.pop(number, None) if number is not None else None
                if settle is not None:
                    settle(None, error)
            self._look(error)
            return
        with self._lock:
            self._send(_line(_message("notifications/initialized", None)))
            for _number, line in self._behind_hello:
                self._send(line)
            self._behind_hello = []
            self.server = result if isinstance(result, dict) else {}
        self._look()

    def _look(self, error: Optional[Exception] = None) -> None:
        """Settle the waiters for whom it is time."""
        if error is None and self.ended is not None:
            error = self._why_over()
        for waiter in tuple(self._waiters):
            if error is not None or waiter[0]():
                try:
                    self._waiters.remove(waiter)
                except ValueError:
                    # Another thread has just settled it.
                    continue
                waiter[1](None, error)

    def _serve_status(self) -> None:
        if not self._read_status():
            self.io.remove(self._status)
            os.close(self._status)
            self._status = -1

    def _read_status(self) -> bool:
        """Take in what there is. False at its end."""
        while True:
            try:
                chunk = os.read(self._status, 65536)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            lines, end, self._status_rest = (self._status_rest + chunk).rpartition(b"\n")
            for event in objects(lines + end):
                self._take_status(event)

    def _take_status(self, event: dict[str, Any]) -> None:
        kind, text = event.get("event"), event.get("text")
        if kind == "attached":
            self.id = event.get("id")
        elif kind == "up":
            self.generation = int(event["generation"])
            self._look()
            owner: Optional[Owner] = self._owner()
            if owner is not None and not self.closed:
                owner._on_generation(self.generation)
        elif kind == "alone":
            self.alone = str(text)
        elif kind in ("over", "failed", "refused"):
            self._last_words = str(text)

    def _end(self) -> None:
        """The session is over: the front has closed its end, or this process has."""
        # What it said last stands there already.
        if self._status >= 0:
            self._read_status()
        self.over = self._last_words
        with self._lock:
            self.io.remove(self._socket.fileno())
            self._socket.close()
            self._unsent.clear()
        if self._pidfd < 0:
            _fronts.discard(self)
        while self._calls:
            _number, settle = self._calls.popitem()
            settle(None, self._why_over())
        self._look()

    def _reap(self) -> None:
        self.io.remove(self._pidfd)
        try:
            os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        except ChildProcessError:
            # The host ignores SIGCHLD, or waits for all its children.
            pass
        os.close(self._pidfd)
        self._pidfd = -1
        if self.over is None:
            # Its end of the socket is closed by now, unless a process that it left behind has it.
            self._serve_socket()
        _fronts.discard(self)

    # Writing.

    def _post(self, number: Optional[int], line: bytes) -> None:
        """Send a line, after the handshake."""
        with self._lock:
            if self._hello is not None and self.server is None:
                self._behind_hello.append((number, line))
            else:
                self._send(line)
                return
        self._say_hello()

    def _send(self, line: bytes) -> None:
        with self._lock:
            if self._unsent_bytes > _MAX_UNSENT:
                raise LeaseError(f"the child does not read: {self._unsent_bytes >> 20} MiB wait for it")
            self._unsent.append(memoryview(line))
            self._unsent_bytes += len(line)
            self._flush()

    def _flush(self) -> None:
        # If this is entered from within itself, the outer one goes on with what the inner one has appended.
        if self._sending or not self._unsent:
            return
        self._sending = True
        blocked = False
        try:
            while self._unsent and not blocked:
                first = self._unsent[0]
                try:
                    sent = self._socket.send(first)
                except BlockingIOError:
                    sent, blocked = 0, True
                except OSError:
                    # The front has ended; the I/O thread finds that out by itself.
                    self._unsent.clear()
                    self._unsent_bytes = 0
                    return
                self._unsent_bytes -= sent
                if sent < len(first):
                    self._unsent[0] = first[sent:]
                else:
                    self._unsent.popleft()
            if blocked != self._wants_write:
                self._wants_write = blocked
                self.io.want_write(self._socket.fileno(), blocked)
        except (OSError, ValueError):
            # The I/O thread has just closed the socket.
            pass
        finally:
            self._sending = False


def _pidfd_of(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        # It has ended, and a thread of the host that waits for all children has reaped it.
        return -1


def _message(method: str, params: Any, number: Optional[int] = None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0"}
    if number is not None:
        message["id"] = number
    message["method"] = method
    if params is not None:
        message["params"] = params
    return message


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


# All whose front is not reaped yet.
_fronts: set[Front] = set()


def close_session(session: str) -> None:
    """Release what this process has leased for this session."""
    for front in tuple(_fronts):
        if front.session == session:
            front.close()


def _after_fork() -> None:
    for front in _fronts:
        front.forget()
    _fronts.clear()


os.register_at_fork(after_in_child=_after_fork)
