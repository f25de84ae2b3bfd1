"""``subprocess.Popen`` whose child is contained: however this process ends, nothing of the child's tree is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, AnyStr, Callable, Literal, Optional, Union, overload

from ._errors import NostrayError, SlotTaken
from ._options import RunOptions, Word, words
from ._program import find_program
from ._status import Exit, Status

if TYPE_CHECKING:
    from typing_extensions import Unpack

    Command = Union[Word, Sequence[Word]]
    File = Union[None, int, IO[Any]]

    class PopenOptions(RunOptions, total=False):
        """What ``subprocess.Popen`` takes, and what nostray takes."""

        bufsize: int
        executable: Optional[Word]
        stdin: File
        stdout: File
        stderr: File
        preexec_fn: Optional[Callable[[], Any]]
        close_fds: bool
        shell: bool
        cwd: Optional[Word]
        env: Optional[Mapping[Any, Any]]
        restore_signals: bool
        start_new_session: bool
        pass_fds: Collection[int]
        user: Union[str, int, None]
        group: Union[str, int, None]
        extra_groups: Optional[Sequence[Union[str, int]]]
        umask: int
        pipesize: int
        process_group: Optional[int]

    class RunArguments(PopenOptions, total=False):
        input: Union[str, bytes, None]
        capture_output: bool
        timeout: Optional[float]
        check: bool


# Seconds after which an equal signal is another request, and how many are sent.
_SECOND_SIGNAL = 0.2
_SIGNALS = 10

_CODE = subprocess.Popen.__init__.__code__
_POSITIONAL = _CODE.co_varnames[2 : _CODE.co_argcount]


class Plan:
    """How the child of one ``Popen`` is started by a front, and how it is killed."""

    def __init__(self, args: Command, arguments: dict[str, Any]) -> None:
        options = {name: arguments.pop(name) for name in RunOptions.__optional_keys__ & arguments.keys()}
        argv: list[Any] = [args] if isinstance(args, (str, bytes, os.PathLike)) else list(args)
        executable = arguments.pop("executable", None)
        if arguments.pop("shell", False):
            argv = ["/bin/sh", "-c", *argv]
            if executable is not None:
                argv[0] = executable
        self.executable = argv[0] if executable is None else executable
        self.status = Status()
        own = ["--status-fd", str(self.status.write_end)]
        if executable is not None:
            own += ["--argv0", argv[0]]
        self.words = [find_program(), "run", *words(options, RunOptions.__optional_keys__), *own, "--", self.executable, *argv[1:]]
        # Only as the child's own user, and by the child's own environment, its record can be found.
        self._as_child = {name: arguments[name] for name in ("env", "user", "group", "extra_groups") if name in arguments}
        fds = arguments.get("pass_fds", ())
        if fds or arguments.get("close_fds", True):
            arguments["pass_fds"] = (*fds, self.status.write_end)
        else:
            os.set_inheritable(self.status.write_end, True)

    def has_start(self) -> bool:
        """Whether the child has become its program, or cannot, or has to wait for its slot."""
        # A child that ends at once may be told of by its end alone.
        return self.status.start is not None or self.status.exited is not None

    def problem(self) -> Optional[Exception]:
        """Return why there is no child, as ``subprocess`` would raise it."""
        if self.status.start is None and self.status.exited is not None:
            return None
        start = self.status.start or {"event": "failed", "text": "nostray ended before it started the child"}
        event, text = start["event"], str(start.get("text"))
        if event == "not-executed":
            errno = int(start["errno"])
            # Since 3.13, subprocess names a path by its text.
            name = os.fspath(self.executable) if sys.version_info >= (3, 13) else self.executable
            return OSError(errno, os.strerror(errno), name)
        if event == "refused":
            return SlotTaken(text)
        return NostrayError(text) if event == "failed" else None

    def kill(self, signal_front: Callable[[int], None]) -> None:
        """End the tree at once. SIGKILL to the front would only begin the graces."""
        self.status.read()
        if self.status.id is None:
            # It waits for its slot.
            signal_front(signal.SIGKILL)
            return
        stop = subprocess.Popen(
            [find_program(), "stop", "--now", self.status.id],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._as_child,
        )

        def reap() -> None:
            if stop.wait() != 0:
                # It is not on record, since there is no place for records. A second signal ends the graces. It is the same one, since a
                # host in the background of a shell ignores others; and again, since on a busy machine two may come at once and be one.
                for _ in range(_SIGNALS):
                    signal_front(signal.SIGTERM)
                    time.sleep(_SECOND_SIGNAL)

        threading.Thread(target=reap, name="nostray-kill", daemon=True).start()


class Popen(subprocess.Popen[AnyStr]):
    """A child with its tree tied to this process. Takes and does what ``subprocess.Popen`` takes and does; beyond that:

    - ``session``, ``labels``, ``eof_grace``, ``term_grace``, ``idle_timeout``, ``die_with``, ``isolate``, ``slot``, ``if_taken``,
      ``wait_timeout``, ``max_handovers`` and ``ready`` are the options of ``nostray run``.
    - ``pid`` is the process that this host started and ``child_pid`` the child; signals to the first reach the second.
    - ``kill()`` ends the whole tree at once, and ``wait()`` returns when nothing is left of it.
    - ``exit`` says how the child ended, and why.
    """

    # subprocess.Popen's own: whether there is a process.
    _child_created: bool

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Popen[str],
            args: Command,
            *,
            text: Literal[True],
            encoding: Optional[str] = ...,
            errors: Optional[str] = ...,
            universal_newlines: Optional[bool] = ...,
            **options: Unpack[PopenOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Popen[str],
            args: Command,
            *,
            encoding: str,
            text: Optional[bool] = ...,
            errors: Optional[str] = ...,
            universal_newlines: Optional[bool] = ...,
            **options: Unpack[PopenOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Popen[str],
            args: Command,
            *,
            errors: str,
            text: Optional[bool] = ...,
            encoding: Optional[str] = ...,
            universal_newlines: Optional[bool] = ...,
            **options: Unpack[PopenOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Popen[str],
            args: Command,
            *,
            universal_newlines: Literal[True],
            text: Optional[bool] = ...,
            encoding: Optional[str] = ...,
            errors: Optional[str] = ...,
            **options: Unpack[PopenOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: Popen[bytes],
            args: Command,
            *,
            text: Literal[False, None] = ...,
            encoding: None = ...,
            errors: None = ...,
            universal_newlines: Literal[False, None] = ...,
            **options: Unpack[PopenOptions],
        ) -> None: ...
        @overload
        def __init__(self: Popen[Any], args: Command, bufsize: int = ..., *positional: Any, **options: Any) -> None: ...

    def __init__(self, args: Command, *positional: Any, **arguments: Any) -> None:
        for name, value in zip(_POSITIONAL, positional):
            if name in arguments:
                raise TypeError(f"got multiple values for argument {name!r}")
            arguments[name] = value
        self._code: Optional[int] = None
        self._plan = plan = Plan(args, arguments)
        try:
            super().__init__(plan.words, **arguments)
            self.args = args
            plan.status.close_write_end()
            plan.status.until(plan.has_start)
            problem = plan.problem()
            if problem is not None:
                super().wait()
                raise problem
        except BaseException:
            # There is no child, or a signal handler raised, as Ctrl-C does: then the caller has no object by which to end it.
            plan.status.close_write_end()
            if self._child_created:
                self.kill()
                for pipe in (self.stdin, self.stdout, self.stderr):
                    if pipe is not None:
                        pipe.close()
                super().wait()
            elif plan.status.until(plan.has_start):
                # It raised where subprocess has started the front and does not know its pid yet.
                plan.kill(lambda _signal: None)
            raise

    # subprocess sets it when it reaps the front, whose code cannot tell 137 from SIGKILL.
    @property
    def returncode(self) -> Any:
        return self._code

    @returncode.setter
    def returncode(self, code: Optional[int]) -> None:
        self._code = None if code is None else self._plan.status.returncode(code)

    @property
    def child_pid(self) -> Optional[int]:
        """The child's own pid. None while it waits for its slot, and with ``isolate="pid"``."""
        self._plan.status.read()
        return self._plan.status.pid

    @property
    def exit(self) -> Optional[Exit]:
        """How the child ended, and why. None while something of its tree is left."""
        code = self.poll()
        return None if code is None else self._plan.status.exit(code)

    def wait_ready(self, timeout: Optional[float] = None) -> bool:
        """Wait until the child is ready, as ``ready=`` defines it. False if it ended before; ``TimeoutExpired`` if it is not in time."""
        status = self._plan.status
        try:
            return status.until(lambda: status.ready, timeout)
        except TimeoutError:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout) from None

    def send_signal(self, sig: int) -> None:
        """Send a signal to the child. SIGKILL ends its whole tree."""
        if sig != signal.SIGKILL:
            super().send_signal(sig)
        elif self.poll() is None:
            self._plan.kill(super().send_signal)


if TYPE_CHECKING:

    @overload
    def run(
        args: Command,
        *,
        text: Literal[True],
        encoding: Optional[str] = ...,
        errors: Optional[str] = ...,
        universal_newlines: Optional[bool] = ...,
        **options: Unpack[RunArguments],
    ) -> subprocess.CompletedProcess[str]: ...
    @overload
    def run(
        args: Command,
        *,
        encoding: str,
        text: Optional[bool] = ...,
        errors: Optional[str] = ...,
        universal_newlines: Optional[bool] = ...,
        **options: Unpack[RunArguments],
    ) -> subprocess.CompletedProcess[str]: ...
    @overload
    def run(
        args: Command,
        *,
        text: Literal[False, None] = ...,
        encoding: None = ...,
        errors: None = ...,
        universal_newlines: Literal[False, None] = ...,
        **options: Unpack[RunArguments],
    ) -> subprocess.CompletedProcess[bytes]: ...
    @overload
    def run(args: Command, bufsize: int = ..., *positional: Any, **options: Any) -> subprocess.CompletedProcess[Any]: ...


def run(
    args: Command,
    *positional: Any,
    input: Any = None,
    capture_output: bool = False,
    timeout: Optional[float] = None,
    check: bool = False,
    **arguments: Any,
) -> subprocess.CompletedProcess[Any]:
    """``subprocess.run`` with the child's tree tied to this process."""
    if input is not None:
        if arguments.get("stdin") is not None:
            raise ValueError("stdin and input arguments may not both be used.")
        arguments["stdin"] = subprocess.PIPE
    if capture_output:
        if arguments.get("stdout") is not None or arguments.get("stderr") is not None:
            raise ValueError("stdout and stderr arguments may not be used with capture_output.")
        arguments["stdout"] = arguments["stderr"] = subprocess.PIPE
    with Popen(args, *positional, **arguments) as process:
        try:
            stdout, stderr = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
        code: Any = process.poll()
        if check and code:
            raise subprocess.CalledProcessError(code, process.args, output=stdout, stderr=stderr)
    return subprocess.CompletedProcess(process.args, code, stdout, stderr)
