"""Every Python block of the documents runs as it stands, with stand-ins for the servers that it names; and every name is there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nostray
from conftest import BRIDGE, TESTS, Scene

ROOT = TESTS.parents[1]
PAGES = [ROOT / "docs" / "python.md", ROOT / "python" / "README.md"]
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}", marks=[pytest.mark.sdk] if "mcp" in block else [])
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE), 1)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_runs(block: str, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    if re.search(r"\bmcp\b", block):
        pytest.importorskip("mcp")
    programs = scene.folder / "programs"
    programs.mkdir()
    for name in ("npx", "some-server", "memory-bridge"):
        (programs / name).write_text(f"#!/bin/sh\nexec {BRIDGE[0]} {BRIDGE[1]}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    script = scene.folder / "block.py"
    script.write_text(block)
    done = subprocess.run(
        [sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=50, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    scene.empty()


def test_the_lines_for_frameworks_are_python_and_name_the_program(scene: Scene) -> None:
    lines = re.findall(r"^\| [^|]+ \| `(.*nostray\.(?:wrap|command)\(.*\))`", PAGES[0].read_text(), re.MULTILINE)
    assert len(lines) >= 8
    for line in lines:
        calls = [
            node
            for node in ast.walk(ast.parse(line))
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("nostray.wrap", "nostray.command")
        ]
        found: Any = eval(ast.unparse(calls[0]), {"nostray": nostray})
        assert (found["command"] if isinstance(found, dict) else found[0]) == nostray.find_program()


def test_every_name_of_the_package_is_in_the_documents() -> None:
    text = "".join(page.read_text() for page in PAGES)
    shown = set(nostray.__all__) - {"CalledProcessError", "CompletedProcess", "DEVNULL", "PIPE", "STDOUT", "TimeoutExpired", "Time"}
    missing = [
        name for name in sorted(shown) if not re.search(rf"\b{name}\b", text) and not name.endswith("Options") and name != "Ready"
    ]
    assert not missing


def test_every_option_of_a_lease_and_of_popen_is_in_the_documents() -> None:
    text = PAGES[0].read_text()
    options = nostray.RunOptions.__optional_keys__ | nostray.ShareOptions.__optional_keys__
    assert not [name for name in sorted(options) if f"`{name}`" not in text]


def test_no_line_of_code_is_too_long_and_no_file_names_a_machine() -> None:
    files = [
        *(ROOT / "python").rglob("*.py"),
        ROOT / "python" / "check",
        ROOT / "bench" / "python-host",
        *(ROOT / "examples" / "python").glob("*.py"),
    ]
    for path in files:
        if path.is_file() and "__pycache__" not in path.parts:
            text = path.read_text()
            assert not [line for line in text.splitlines() if len(line) > 140], path
            assert str(Path.home()) + "/" not in text, path
