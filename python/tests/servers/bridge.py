"""A bridge that speaks JSON-RPC over lines and is no MCP server: with requests to its host, log lines on stdout in between, a method
that hangs and one that dies. Needs nothing but Python 3.9."""

import json
import os
import subprocess
import sys
import threading
import time

lock = threading.Lock()
waiting = {}
cancelled = []
opened = []
numbers = iter(range(1, 1 << 60))


def say(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def send(**message):
    say(json.dumps({"jsonrpc": "2.0", **message}))


def ask(method, params):
    """A request to the host."""
    number = f"srv-{next(numbers)}"
    answer = waiting[number] = {"there": threading.Event()}
    send(id=number, method=method, params=params)
    answer["there"].wait()
    return answer["message"]


def serve(number, method, params):
    params = params or {}
    if method == "die":
        print("dying as asked", file=sys.stderr, flush=True)
        os._exit(params.get("code", 3))
    if method == "hang":
        return
    if method == "slow":
        time.sleep(params["seconds"])
        result = "slow"
    elif method == "echo":
        result = params
    elif method == "pid":
        result = os.getpid()
    elif method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {},
            "serverInfo": {"name": "bridge", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": []}
    elif method == "ask":
        result = ask(params["method"], params.get("params"))
        result = {name: result[name] for name in ("result", "error") if name in result}
    elif method == "session.open":
        opened.append(params["sessionId"])
        result = len(opened)
    elif method == "memory.add":
        asked = ask("host.llm.complete", {"sessionId": params["sessionId"], "prompt": params["text"]})
        result = {"summary": asked.get("result"), "error": asked.get("error"), "pid": os.getpid(), "opened": sorted(set(opened))}
    elif method == "notes":
        for count in range(params["count"]):
            send(method="events.notify", params={"number": count})
        result = params["count"]
    elif method == "garbage":
        for line in (
            "plain text",
            "[1, 2, 3]",
            "17",
            "null",
            '"text"',
            '{"id": 1',
            "{}",
            '{"jsonrpc":"2.0"}',
            '{"id":[1],"result":1}',
            "",
        ):
            say(line)
        with lock:
            sys.stdout.buffer.write(b"\xff\xfe\x00garbage\n" + b"[" * 100000 + b"\n")
            sys.stdout.buffer.flush()
        result = "after garbage"
    elif method == "big":
        result = "x" * params["size"]
    elif method == "size":
        result = len(params["text"])
    elif method == "cancelled":
        result = list(cancelled)
    elif method == "fail":
        send(id=number, error={"code": 7, "message": "as asked", "data": {"more": 1}})
        return
    else:
        send(id=number, error={"code": -32601, "message": f"no method {method}"})
        return
    say(f"log: {method}")
    send(id=number, result=result)


def main():
    if "--helper" in sys.argv:
        # In a session of its own, with nothing that would tell it of the bridge's end.
        subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    record = os.environ.get("BRIDGE_RECORD")
    if record:
        with open(record, "a") as file:
            file.write(f"{os.getpid()}\n")
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            answer = waiting.pop(message["id"])
            answer["message"] = message
            answer["there"].set()
        elif "id" not in message:
            if message["method"] == "$/cancelRequest":
                cancelled.append("jsonrpc")
                # As the Language Server Protocol wants it: a cancelled request is answered, too.
                send(id=message["params"]["id"], error={"code": -32800, "message": "cancelled"})
            elif message["method"] == "notifications/cancelled":
                cancelled.append("mcp")
        else:
            threading.Thread(target=serve, args=(message["id"], message["method"], message.get("params")), daemon=True).start()


main()
