"""Command lines for hosts and frameworks that start a server by a command and its arguments."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from datetime import timedelta
from typing import Any

import pytest

import nostray
from conftest import Scene

PROGRAM = nostray.find_program()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["run"]),
        ({"session": "chat", "labels": {"a": "b", "c": "d"}}, ["run", "--session", "chat", "--label", "a=b", "--label", "c=d"]),
        ({"eof_grace": 1.5, "term_grace": timedelta(minutes=1)}, ["run", "--eof-grace", "1500ms", "--term-grace", "60000ms"]),
        ({"die_with": [1, 2], "isolate": "pid"}, ["run", "--die-with", "1", "--die-with", "2", "--isolate", "pid"]),
        ({"ready": {"line": "up", "timeout": 3, "notify": False}}, ["run", "--ready-line", "up", "--ready-timeout", "3000ms"]),
        (
            {"hibernate": "10m", "max_memory": "500M", "respawn": True},
            ["run", "--hibernate", "10m", "--max-memory", "500M", "--respawn"],
        ),
        ({"share": True}, ["share", "--linger", "0ms"]),
        ({"share": "memory", "linger": 5}, ["share", "--linger", "5000ms", "--key", "memory"]),
        (
            {"share": True, "share_env": ["A", "B"], "any_dir": True},
            ["share", "--linger", "0ms", "--share-env", "A,B", "--any-dir"],
        ),
        ({"share": True, "replay": ["a", "b=c@d"]}, ["share", "--linger", "0ms", "--replay", "a", "--replay", "b=c@d"]),
        ({"share": True, "respawn": False}, ["share", "--linger", "0ms", "--no-respawn"]),
    ],
)
def test_options_become_words(options: Any, words: list[str]) -> None:
    assert nostray.command("npx", "-y", "some-server", **options) == [PROGRAM, *words, "--", "npx", "-y", "some-server"]
    assert nostray.wrap("npx", ["-y"], **options) == {"command": PROGRAM, "args": [*words, "--", "npx", "-y"]}


def test_an_unknown_option_is_a_type_error() -> None:
    for options in ({"no_such": 1}, {"share": True, "slot": "x"}, {"linger": 1}):
        with pytest.raises(TypeError):
            nostray.command("x", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"session": "s", "labels": {"a": "b"}, "eof_grace": 1, "term_grace": 1.5, "idle_timeout": "1h", "max_handovers": "3/1m"},
        {"slot": "memory", "if_taken": "replace", "wait_timeout": 3, "ready": {"file": "/dev/null", "timeout": 9}},
        {
            "respawn": True,
            "backoff": "1s..2s",
            "max_failures": "3/1m",
            "hibernate": 60,
            "max_memory": "1G",
            "max_age": 3600,
            "max_line": "1M",
        },
        {"start_timeout": 60, "call_timeout": 60, "protocol": "jsonrpc", "replay": "session.open=session.close@params.sessionId"},
    ],
)
def test_the_program_understands_every_option(options: Any, scene: Scene) -> None:
    done = subprocess.run(nostray.command("true", **options), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert "unexpected" not in done.stderr and "invalid" not in done.stderr, done.stderr


def test_importing_the_package_loads_little_and_its_names_are_all_there(scene: Scene) -> None:
    code = "import sys, nostray; print([name for name in ('asyncio', 'subprocess', 'mcp', 'json') if name in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-S", "-c", "import sys; sys.path[:0] = %r; %s" % (sys.path, code)], capture_output=True, text=True
        ).stdout
        == "[]\n"
    )
    for name in set(nostray.__all__) - {"mcp", "__version__"}:
        assert getattr(nostray, name) is not None and name in dir(nostray)
    with pytest.raises(AttributeError):
        nostray.no_such_name


# What Windows would import, in a Python that takes this machine for one: a module's names are decided once.
ON_WINDOWS = """
import os, sys, sysconfig
sys.path[:0] = {path!r}
os.name = "nt"
import nostray
os.name = "posix"
nostray._program.IS_WINDOWS = False  # the program that is here has no .exe
missing = ("Popen", "run", "Lease", "AsyncLease", "Session", "Slot", "Exit", "asyncio", "mcp", "parent", "registry")
"""


def on_windows(code: str) -> str:
    program = ON_WINDOWS.format(path=sys.path) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_on_windows_there_is_the_command() -> None:
    assert on_windows("print(nostray.command('npx', 'x')[1:], nostray.PIPE)") == "['run', '--', 'npx', 'x'] -1\n"


def test_what_is_missing_on_windows_is_an_attribute_that_is_missing_and_says_so() -> None:
    said = on_windows("""
        for name in missing:
            assert not hasattr(nostray, name) and getattr(nostray, name, None) is None, name
            assert name not in dir(nostray) and name not in nostray.__all__, name
            try:
                getattr(nostray, name)
            except AttributeError as error:
                assert str(error).startswith(f"nostray.{name} is not there yet on Windows; start a child by"), error
        try:
            from nostray import Popen
        except ImportError as error:
            print(error.name)
        everything = {}
        nostray.__all__.remove("__version__")  # only an installed package has one
        exec("from nostray import *", everything)
        print(sorted(name for name in everything if name in ("Popen", "command", "wrap", "NostrayError")))
        print(hasattr(nostray, "no_such_name"))
    """)
    assert said.splitlines() == ["nostray", "['NostrayError', 'command', 'wrap']", "False"]
