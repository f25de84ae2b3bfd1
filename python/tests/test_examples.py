"""The examples run, and leave nothing."""

from __future__ import annotations

import ast
import difflib
import json
import os
import sys

from conftest import BRIDGE, TESTS, Host, Scene, comm, until

EXAMPLES = TESTS.parents[1] / "examples" / "python"


def run(scene: Scene, name: str, *args: str) -> Host:
    script = EXAMPLES / name
    return scene.host(
        f"import runpy, sys; sys.argv = {[str(script), *args]!r}; runpy.run_path({str(script)!r}, run_name='__main__')"
    )


def workers(scene: Scene) -> list[int]:
    return [pid for pid in scene.processes("--worker") if comm(pid).startswith("python")]


def test_the_worker_pool_has_a_worker_for_each_session_until_it_disconnects(scene: Scene) -> None:
    host = run(scene, "worker_pool.py")
    for line, answer in (("a hello", "1: HELLO"), ("b hello", "1: HELLO"), ("a more", "2: MORE")):
        host.say(line)
        assert host.line() == answer
    assert len(workers(scene)) == 2
    host.say("a /bye")
    assert host.line() == "disconnected"
    assert len(workers(scene)) == 1
    host.say("a again")
    assert host.line() == "1: AGAIN"
    host.kill()
    scene.empty()


def test_the_worker_pool_ends_a_worker_that_is_idle_and_starts_another_one(scene: Scene) -> None:
    host = run(scene, "worker_pool.py", "1")
    host.say("a hello")
    assert host.line() == "1: HELLO"
    [worker] = workers(scene)
    until(lambda: worker not in workers(scene), "it was idle for too long")
    host.say("a hello")
    assert host.line() == "1: HELLO"
    host.close_input()
    assert host.wait() == 0
    scene.empty()


def test_the_memory_provider_shares_a_bridge_that_asks_back_over_its_death(scene: Scene) -> None:
    host = run(scene, "memory_provider.py", *BRIDGE)
    for number in range(3):
        host.say(f"text {number}")
        stored = ast.literal_eval(host.line())
        assert stored["summary"] == {"text": f"TEXT {number}"} and [stored["pid"]] == scene.servers()
    scene.kill_server(scene.one_server())
    host.say("after")
    stored = ast.literal_eval(host.line())
    assert stored["summary"] == {"text": "AFTER"} and scene.starts()[1:] == [stored["pid"]]
    host.kill()
    scene.empty()


def test_the_gateway_reloads_ten_times_and_keeps_what_stays(scene: Scene) -> None:
    configuration = scene.folder / "servers.json"

    def configure(*names: str) -> None:
        entries = {name: {"command": BRIDGE[0], "args": [*BRIDGE[1:], name]} for name in names}
        configuration.write_text(json.dumps({"mcpServers": entries}))

    configure("stays", "goes")
    host = run(scene, "gateway.py", str(configuration))
    host.say("stays pid")
    stays = host.line()
    for number in range(10):
        configure("stays", f"comes-{number}")
        host.say("reload")
        assert host.line() == f"comes-{number} stays"
    host.say("stays pid")
    assert host.line() == stays
    host.say("comes-9 pid")
    last = host.line()
    until(lambda: scene.servers() == sorted([int(stays), int(last)]), "only the two of the configuration are left")
    host.kill()
    scene.empty()


def test_the_host_leaves_a_helper_before_and_nothing_after_in_a_few_lines(scene: Scene) -> None:
    before, after = (EXAMPLES / f"host_{name}.py" for name in ("before", "after"))
    difference = difflib.unified_diff(before.read_text().splitlines(), after.read_text().splitlines(), n=0)
    assert len([line for line in difference if line[0] in "+-" and line[1:4] != line[0] * 2 + " "]) <= 10
    for name, left in (("host_before.py", 1), ("host_after.py", 0)):
        host = run(scene, name, *BRIDGE, "--helper")
        assert int(host.line()) == scene.one_server()
        until(lambda: scene.running("sleep"))
        host.kill()
        scene.no_server()
        if left:
            assert len(scene.running("sleep")) == 1, "a stray, as every such host leaves them"
            os.kill(scene.running("sleep")[0], 9)
        scene.empty()
    assert sys.executable in BRIDGE
