"""``nostray.Popen`` and ``nostray.run`` do what ``subprocess`` does, and the tree ends with the host."""

from __future__ import annotations

import gc
import io
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import pytest

import nostray
from conftest import Scene, until, zombies

# What subprocess and nostray are to do alike.
BOTH: list[Any] = [subprocess, nostray]

# A child with a grandchild that ignores everything but SIGKILL and is in a session of its own.
STUBBORN = "setsid sh -c 'trap \"\" TERM HUP INT; echo up; while :; do sleep 1; done' & wait"


def error_of(action: Callable[[], Any]) -> tuple[Any, ...]:
    try:
        action()
    except Exception as error:
        return type(error), getattr(error, "errno", None), str(error), getattr(error, "filename", None)
    return ("no error",)


@pytest.mark.parametrize(
    "args",
    [
        ["no-such-program"],
        ["/no/such/program"],
        ["/etc/passwd"],
        ["/"],
        ["/etc/passwd/x"],
        [b"/no/such/bytes"],
        [Path("/no/such/path")],
        "no such program",
        ["with\0null"],
        [],
    ],
)
def test_a_program_that_cannot_be_executed_raises_what_subprocess_raises(args: Any) -> None:
    assert error_of(lambda: nostray.Popen(args)) == error_of(lambda: subprocess.Popen(args))


@pytest.mark.parametrize(
    "arguments",
    [
        {"cwd": "/no/such/folder"},
        {"cwd": "/etc/passwd"},
        {"executable": "/no/such/program"},
        {"env": {"PATH": "/no/such/folder"}},
        {"shell": True, "executable": "/no/such/shell"},
        {"bufsize": "x"},
    ],
)
def test_arguments_that_cannot_work_raise_what_subprocess_raises(arguments: Any) -> None:
    assert error_of(lambda: nostray.Popen(["true"], **arguments)) == error_of(lambda: subprocess.Popen(["true"], **arguments))


def test_an_unknown_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        nostray.Popen(["true"], no_such_argument=1)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        nostray.Popen(["true"], -1, bufsize=-1)


@pytest.mark.parametrize("code", ["exit 0", "exit 3", "exit 137", "kill -9 $$", "kill -15 $$", "kill -2 $$"])
def test_the_return_code_is_that_of_subprocess(code: str) -> None:
    codes = [each.Popen(["sh", "-c", code]).wait() for each in BOTH]
    assert codes[0] == codes[1]


def test_communicate_moves_more_than_a_pipe_holds_in_both_directions() -> None:
    much = os.urandom(1 << 20)
    with nostray.Popen(["cat"], stdin=nostray.PIPE, stdout=nostray.PIPE, stderr=nostray.PIPE) as process:
        out, err = process.communicate(much)
    assert (out, err, process.returncode) == (much, b"", 0)


def test_text_mode_has_its_newlines_encoding_and_errors() -> None:
    for arguments in (
        {"text": True},
        {"encoding": "latin-1"},
        {"universal_newlines": True},
        {"encoding": "ascii", "errors": "replace"},
    ):
        answers = [each.run(["printf", r"a\r\nb\303\244"], stdout=subprocess.PIPE, **arguments).stdout for each in BOTH]
        assert answers[0] == answers[1] and isinstance(answers[0], str)


def test_the_child_sees_the_arguments_environment_directory_umask_and_descriptors_that_it_would_see(tmp_path: Path) -> None:
    show = "import os, sys; print(sys.argv, os.getcwd(), os.environ.get('X'), oct(os.umask(0)), sorted(os.listdir('/proc/self/fd')))"
    read, write = os.pipe()
    answers = []
    for each in BOTH:
        done = each.run(
            [sys.executable, "-c", show, "a b", "", "ä", b"\xff"],
            stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path, env={**os.environ, "X": "1"}, umask=0o27, pass_fds=[write],
        )  # fmt: skip
        answers.append(done.stdout)
    os.close(read)
    os.close(write)
    assert answers[0] == answers[1]


def test_the_shell_and_an_executable_of_another_name_work() -> None:
    for arguments in (
        {"args": "echo $0 $# $1", "shell": True},
        {"args": ["echo $0 $# $1", "zero", "one"], "shell": True},
        {"args": ["other", "-c", "echo $0"], "executable": "/bin/sh"},
        {"args": "echo $0", "shell": True, "executable": "/bin/bash"},
    ):
        answers = [each.run(stdout=subprocess.PIPE, **arguments).stdout for each in BOTH]
        assert answers[0] == answers[1]


def test_a_preexec_function_a_session_and_a_process_group_work() -> None:
    show = "import os, resource; print(os.getsid(0) == os.getpid() == os.getpgid(0), resource.getrlimit(resource.RLIMIT_CORE))"

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    for each in BOTH:
        done = each.run([sys.executable, "-c", show], stdout=subprocess.PIPE, preexec_fn=lower, start_new_session=True)
        assert done.stdout == b"True (0, 0)\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_runs_the_child_and_kill_finds_it(scene: Scene) -> None:
    scene.folder.chmod(0o711)
    for place in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        os.chown(scene.folder / place, 65534, 65534)
    with nostray.Popen(["sh", "-c", "id -u; id -g; sleep 100"], stdout=nostray.PIPE, text=True, user=65534, group=65534) as process:
        assert process.stdout is not None
        assert [process.stdout.readline(), process.stdout.readline()] == ["65534\n", "65534\n"]
        process.kill()
        assert process.wait(10) == -9


def test_close_fds_false_passes_all_descriptors_that_can_be_inherited() -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    nostray.Popen(["sh", "-c", f"echo x >/proc/self/fd/{write}"], close_fds=False).wait()
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"x\n"


def test_kill_ends_the_whole_tree_at_once(scene: Scene) -> None:
    process = nostray.Popen(["sh", "-c", STUBBORN], stdout=nostray.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    begun = time.monotonic()
    process.kill()
    assert process.wait() == -9
    assert time.monotonic() - begun < 4, "it waited for a grace"
    assert not scene.running("sleep") and process.exit is not None and process.exit.reason == "stop-request"
    process.stdout.close()


def test_kill_ends_a_tree_whose_child_has_no_environment(scene: Scene) -> None:
    # There is no place for a record of it.
    process = nostray.Popen(["/bin/sh", "-c", STUBBORN], env={}, stdout=nostray.PIPE, stderr=nostray.DEVNULL, term_grace=60)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    process.kill()
    assert process.wait(20) < 0
    process.stdout.close()


def test_terminate_reaches_the_child_and_what_it_leaves_behind(scene: Scene) -> None:
    process = nostray.Popen(["sh", "-c", STUBBORN], stdout=nostray.PIPE, term_grace=0.2)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    process.terminate()
    assert process.wait() == -15
    assert process.exit == nostray.Exit(None, 15, "signal", f"SIGTERM came from process {os.getpid()}")
    assert not scene.running("sleep")
    process.stdout.close()


def test_signals_before_and_after_the_end_are_harmless() -> None:
    process = nostray.Popen(["sleep", "100"])
    process.send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGCONT)
    process.send_signal(0)
    process.kill()
    process.kill()
    assert process.wait() == -9
    process.kill()
    process.terminate()


def test_exit_is_none_while_it_runs_and_then_tells_code_signal_and_reason() -> None:
    process = nostray.Popen(["cat"], stdin=nostray.PIPE)
    assert process.exit is None and process.poll() is None
    assert process.child_pid is not None and Path(f"/proc/{process.child_pid}/comm").read_text() == "cat\n"
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 0
    assert process.exit == nostray.Exit(0, None, "stdin-closed", "stdin was closed")
    died = nostray.Popen(["sh", "-c", "exit 4"])
    died.wait()
    assert died.exit is not None and (died.exit.code, died.exit.reason) == (4, "child-ended")


def test_the_graces_of_a_child_are_its_own(scene: Scene) -> None:
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), sys.exit(5)))\n"
    code += "print('up', flush=True); time.sleep(99)"
    process = nostray.Popen([sys.executable, "-c", code], stdin=nostray.PIPE, stdout=nostray.PIPE, eof_grace=0, term_grace="10s")
    assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == b"up\n"
    process.stdin.close()
    assert process.wait() == 5
    process.stdout.close()


def test_ready_is_waited_for() -> None:
    code = "echo starting >&2; sleep 0.2; echo listening on 8080 >&2; exec sleep 100"
    with nostray.Popen(["sh", "-c", code], stderr=nostray.DEVNULL, ready={"line": "listening"}) as process:
        with pytest.raises(nostray.TimeoutExpired):
            process.wait_ready(0.01)
        assert process.wait_ready(10)
        process.kill()
    with nostray.Popen(["true"], stderr=nostray.DEVNULL, ready={"line": "listening"}) as process:
        assert not process.wait_ready(10)
    with nostray.Popen(["sleep", "100"], ready={"port": 1, "timeout": 0.1}, term_grace=0) as process:
        process.wait(20)
        assert process.exit is not None and process.exit.reason == "ready-timeout"


def test_a_slot_is_held_by_one_child_at_a_time() -> None:
    first = nostray.Popen(["sleep", "100"], slot="memory")
    with pytest.raises(nostray.SlotTaken, match="memory"):
        nostray.Popen(["sleep", "100"], slot="memory", if_taken="fail", stderr=nostray.DEVNULL)
    waiter = nostray.Popen(["true"], slot="memory")
    assert waiter.child_pid is None and waiter.poll() is None
    replacer = nostray.Popen(["sleep", "100"], slot="memory", if_taken="replace")
    first.wait(20)
    assert first.exit is not None and first.exit.reason == "hand-over"
    until(lambda: replacer.child_pid, "the replacer has its child")
    replacer.kill()
    replacer.wait(20)
    assert waiter.wait(20) == 0


def test_a_child_that_waits_for_its_slot_can_be_killed() -> None:
    first = nostray.Popen(["sleep", "100"], slot="memory")
    waiter = nostray.Popen(["sleep", "100"], slot="memory")
    waiter.kill()
    assert waiter.wait(20) != 0 and waiter.exit is not None and waiter.exit.reason == "waiting"
    first.kill()
    first.wait(20)


def test_run_captures_times_out_and_checks_like_subprocess() -> None:
    for each in BOTH:
        with pytest.raises(subprocess.CalledProcessError) as failed:
            each.run(["sh", "-c", "echo out; echo err >&2; exit 3"], capture_output=True, check=True, text=True)
        assert (failed.value.returncode, failed.value.output, failed.value.stderr) == (3, "out\n", "err\n")
        begun = time.monotonic()
        with pytest.raises(subprocess.TimeoutExpired) as late:
            each.run(["sh", "-c", "echo out; exec sleep 100"], stdout=subprocess.PIPE, timeout=0.5)
        assert late.value.cmd == ["sh", "-c", "echo out; exec sleep 100"] and time.monotonic() - begun < 5
        assert each.run(["cat"], input=b"in", stdout=subprocess.PIPE).stdout == b"in"
        with pytest.raises(ValueError):
            each.run(["cat"], input=b"in", stdin=subprocess.PIPE)
        with pytest.raises(ValueError):
            each.run(["cat"], capture_output=True, stdout=subprocess.PIPE)


def test_files_and_redirections_work(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w+b") as out:
        nostray.Popen(["sh", "-c", "echo a; echo b >&2"], stdout=out, stderr=nostray.STDOUT).wait()
    assert (tmp_path / "out").read_bytes() == b"a\nb\n"
    with nostray.Popen(["sh", "-c", "echo b >&2"], stderr=nostray.PIPE, bufsize=0) as process:
        assert isinstance(process.stderr, io.FileIO) and process.stderr.read() == b"b\n"


def test_a_dropped_object_warns_as_subprocess_does_and_its_tree_lives_until_the_host_ends(scene: Scene) -> None:
    for each in BOTH:
        with pytest.warns(ResourceWarning, match="still running"):
            each.Popen(["sleep", "100"])
            gc.collect()
    for pid in scene.running("sleep"):
        os.kill(pid, signal.SIGKILL)
    scene.empty()
    # subprocess reaps them with a later start.
    until(lambda: (subprocess.Popen(["true"]).wait(), not zombies())[1])


def test_the_tree_ends_with_the_host_however_the_host_ends(scene: Scene) -> None:
    code = f"""
        import nostray, os, signal, sys
        child = nostray.Popen(["sh", "-c", {STUBBORN!r}], stdout=nostray.PIPE, stdin=nostray.PIPE, eof_grace=0.1, term_grace=0.1)
        child.stdout.readline()
        print("up", flush=True)
        how = sys.stdin.readline().strip()
        if how == "raise": raise SystemExit(3)
        if how == "_exit": os._exit(4)
        if how == "abort": os.abort()
    """
    for how in ("raise", "_exit", "abort", "kill"):
        host = scene.host(code)
        assert host.line() == "up"
        assert scene.processes("trap")
        if how == "kill":
            host.kill()
        else:
            host.say(how)
            host.wait()
        scene.empty()


def test_an_interrupt_while_the_child_starts_leaves_nothing(scene: Scene) -> None:
    host = scene.host(
        """
        import nostray, signal, sys
        nostray.run(["true"])
        def interrupt(_signal, frame):
            while frame is not None:
                if frame.f_code is nostray.Popen.__init__.__code__: raise KeyboardInterrupt
                frame = frame.f_back
        signal.signal(signal.SIGALRM, interrupt)
        for delay in range(1, 40):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay / 2000)
                process = nostray.Popen(["sleep", "1000"], term_grace=0)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                continue
            process.kill()
            process.wait()
        print("done", flush=True)
        sys.stdin.readline()
        """
    )
    assert host.line() == "done"
    until(lambda: not scene.running("sleep"), "no child is left")


def test_a_host_without_standard_streams_starts_children(scene: Scene) -> None:
    out = scene.folder / "out"
    host = scene.host(
        f"""
        import os
        for fd in (0, 1, 2): os.close(fd)
        import nostray
        result = nostray.run(["sh", "-c", "echo hello; exit 3"], stdout=nostray.PIPE, stdin=nostray.DEVNULL)
        open({str(out)!r}, "w").write(repr((result.returncode, result.stdout)))
        """
    )
    assert host.wait() == 0
    assert out.read_text() == r"(3, b'hello\n')"
