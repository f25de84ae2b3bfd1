// A host that holds a bridge: it says the bridge's pid, and then does what its first argument says, with a call in flight.
//
// hold: waits for its own end. exit: process.exit. throw: an exception that is not caught. return: lets go, without closing.
// abort: a core dump, without the core. loop: the event loop never turns again.

import { Lease, spawn } from "nostray";

const [what] = process.argv.slice(2);
const bridge = new URL("../servers/bridge.mjs", import.meta.url).pathname;
const lease = new Lease("node", [bridge], { protocol: "jsonrpc", eofGrace: 300, termGrace: 300 });
const { pid } = await lease.call("who");
// A child that holds on to nothing of this host but its life.
const child = spawn("sleep", ["600"], { stdio: ["pipe", "ignore", "ignore"], nostray: { eofGrace: 300, termGrace: 300 } });
await new Promise((resolve) => child.once("spawn", resolve));
lease.call("hang").catch(() => {});
await lease.call("who"); // so the child has read the call before
await new Promise((resolve) => process.stdout.write(`${pid}\n`, resolve));

switch (what) {
  case "exit":
    process.exit(5);
  case "throw":
    queueMicrotask(() => {
      throw new Error("not caught");
    });
    break;
  case "return":
    lease.unref();
    child.unref();
    child.stdin.unref();
    break;
  case "abort":
    process.abort();
  case "loop":
    for (;;);
}
