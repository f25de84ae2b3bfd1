// What the Node package costs a host, against the same without it, in the same run: the variants take turns, so that other load on the
// machine meets all of them. Prints ratios, and exits with 1 if a bound is broken. `bench/node-host` starts it.

import { execFile, spawn as spawnProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Client as Client2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Transport2 } from "@modelcontextprotocol/client/stdio";
import { Lease, spawn } from "nostray";
import { memoryOfNostray } from "./memory.mjs";

const isQuick = process.argv.includes("--quick");
const STARTS = isQuick ? 15 : 100;
// Where the scheduler puts a process decides much of its latency, so each pass has processes of its own.
const PASSES = isQuick ? 3 : 7;
// In a pass. After the first ones the compiler of client and server is warm, so that what is left is the way of a message.
const [TURNS, WARM] = [30, 12];
const CALLS = 50; // in a turn
const HOLDERS = isQuick ? 10 : 30;
const MOST_LATENCY = 1.3;
const MOST_MEMORY = 0.5; // MiB

const folder = mkdtempSync(join(tmpdir(), "nostray-bench-"));
Object.assign(process.env, { XDG_RUNTIME_DIR: folder, XDG_STATE_HOME: folder });
const server = (name) => join(import.meta.dirname, "..", "test", "servers", `${name}.mjs`);
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const broken = [];
const say = (what, value) => console.log(`${what.padEnd(62)} ${value}`);

function bound(what, value, most, unit) {
  say(what, `${value.toFixed(2)}${unit} (at most ${most}${unit})${value > most ? "  BROKEN" : ""}`);
  if (value > most) broken.push(what);
}

// A start, to the first byte.
async function firstByte(start) {
  const from = performance.now();
  const child = start("sh", ["-c", "echo up; read line"], { stdio: ["pipe", "pipe", "inherit"] });
  await once(child.stdout, "data");
  const took = performance.now() - from;
  const closed = once(child, "close");
  child.stdin.end();
  await closed;
  return took;
}
const starts = { node: [], nostray: [] };
for (let round = 0; round < STARTS; round++) {
  starts.node.push(await firstByte(spawnProcess));
  starts.nostray.push(await firstByte(spawn));
}
const [plain, contained] = [median(starts.node), median(starts.nostray)];
say("start to the first byte: spawn of node:child_process", `${plain.toFixed(2)} ms`);
say("start to the first byte: spawn of nostray", `${contained.toFixed(2)} ms, ${(contained / plain).toFixed(2)} of it`);

const children = [];
for (let index = 0; index < HOLDERS; index++) {
  children.push(spawn("sleep", ["600"], { stdio: ["pipe", "ignore", "ignore"] }));
  await once(children[index], "spawn");
}
say("memory of nostray's processes around a contained child", `${(memoryOfNostray(folder) / HOLDERS).toFixed(2)} MiB`);
await Promise.all(children.map((child) => (child.stdin.end(), child.ended)));

// A call.
const info = { name: "bench", version: "1" };
const args = { text: "a short text, as most are" };
const measured = {
  "1.x": [() => new Client1(info), Transport1, "mcp1", (client) => client.callTool({ name: "echo", arguments: args })],
  "2.x": [() => new Client2(info), Transport2, "mcp2", (client) => client.callTool({ name: "echo", arguments: args })],
};
for (const [version, [make, Transport, name, callTool]] of Object.entries(measured)) {
  const times = { direct: [], lease: [] };
  for (let pass = 0; pass < PASSES; pass++) {
    const client = make();
    await client.connect(new Transport({ command: "node", args: [server(name)], env: { XDG_RUNTIME_DIR: folder } }));
    const lease = new Lease("node", [server(name)], { clientInfo: info });
    const callLease = () => lease.call("tools/call", { name: "echo", arguments: args });
    for (let turn = 0; turn < TURNS; turn++) {
      for (const [kind, call] of [["direct", () => callTool(client)], ["lease", callLease]]) {
        for (let index = 0; index < CALLS; index++) {
          const from = performance.now();
          await call();
          if (turn >= WARM) times[kind].push(performance.now() - from);
        }
      }
    }
    await Promise.all([client.close(), lease.close()]);
  }
  const [direct, shared] = [median(times.direct), median(times.lease)];
  say(`a call: client of the SDK ${version}, its own child`, `${(direct * 1000).toFixed(0)} us`);
  say(`a call: Lease, a shared child, server of ${version}`, `${(shared * 1000).toFixed(0)} us`);
  bound(`latency of a Lease against the SDK ${version}`, shared / direct, MOST_LATENCY, "");
}

// A further holder, in a host that has done nothing else: what the calls above have left in this one would be counted, or be freed meanwhile.
const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", join(import.meta.dirname, "holders.mjs"), server("bridge"), HOLDERS]);
const [ofHost, ofNostray] = JSON.parse(stdout);
bound("memory of a further holder, in node and in nostray", ofHost + ofNostray, MOST_MEMORY, " MiB");
say("  of it in nostray", `${ofNostray.toFixed(2)} MiB`);

rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
if (broken.length > 0) {
  console.error(`broken: ${broken.join("; ")}`);
  process.exitCode = 1;
}
