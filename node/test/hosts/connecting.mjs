// A host that connects to everything at once, and is killed meanwhile.

import { Lease, spawn } from "nostray";
import { StdioClientTransport } from "nostray/mcp";

const graces = { eofGrace: 300, termGrace: 300 };
const server = (name) => new URL(`../servers/${name}.mjs`, import.meta.url).pathname;

process.stdout.write("begin\n");
for (let index = 0; index < 2; index++) {
  new Lease("node", [server("bridge")], { protocol: "jsonrpc", ...graces }).call("who").catch(() => {});
  new Lease("node", [server("mcp1")], graces).call("tools/list").catch(() => {});
  new StdioClientTransport({ command: "node", args: [server("mcp1")], nostray: graces, env: process.env }).start().catch(() => {});
  spawn("sleep", ["600"], { stdio: ["pipe", "ignore", "ignore"], nostray: graces });
}
