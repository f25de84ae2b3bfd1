"""Command lines for hosts and frameworks that start a server by a command and its arguments."""

from __future__ import annotations

import subprocess
import sys
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


def test_on_windows_there_is_the_command_and_what_is_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nostray, "IS_WINDOWS", True)
    for name in ("Popen", "Lease", "Slot", "asyncio", "registry"):
        with pytest.raises(NotImplementedError, match=f"nostray.{name} is not there yet on Windows"):
            nostray.__getattr__(name)
    assert nostray.__getattr__("command")("npx", "x")[1:] == ["run", "--", "npx", "x"]
    with pytest.raises(AttributeError):
        nostray.__getattr__("no_such_name")
