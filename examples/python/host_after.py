"""A host that starts a server and asks it something.

python host_after.py COMMAND...
"""

import json
import sys

import nostray

server = nostray.Popen(sys.argv[1:], stdin=nostray.PIPE, stdout=nostray.PIPE, text=True)
assert server.stdin and server.stdout
print(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "pid"}), file=server.stdin, flush=True)
for line in server.stdout:
    if line.startswith("{") and json.loads(line).get("id") == 1:
        print(json.loads(line)["result"], flush=True)
        break
input()
server.terminate()
server.wait()
