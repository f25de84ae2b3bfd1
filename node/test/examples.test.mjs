// The examples do what they say, and nothing of them is left.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { eventually, folder, isAlive, nothingIsLeft, running, server } from "./support/scene.mjs";

const example = (name) => join(import.meta.dirname, "..", "examples", "node", `${name}.mjs`);

function start(name, ...args) {
  const host = spawn(process.execPath, [example(name), ...args], { stdio: ["ignore", "pipe", "inherit"] });
  return { host, lines: createInterface({ input: host.stdout })[Symbol.asyncIterator]() };
}
const next = async (lines) => (await lines.next()).value;

function client(path, session) {
  const socket = connect(path);
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  socket.write(`${JSON.stringify({ session })}\n`);
  const say = async (line) => {
    socket.write(`${line}\n`);
    return JSON.parse(await next(lines));
  };
  return { socket, lines, say };
}

test("worker pool: a worker for each session, which ends with its last client, when it is idle, and with the pool", async () => {
  const path = join(folder, "pool.sock");
  const { host, lines } = start("worker-pool", path, "1s");
  assert.equal(await next(lines), "listening");
  const [one, two, other] = [client(path, "chat-1"), client(path, "chat-1"), client(path, "chat-2")];
  const { pid } = await one.say("hello");
  const heard = next(two.lines);
  assert.equal((await one.say("again")).pid, pid);
  assert.equal(JSON.parse(await heard).session, "chat-1");
  const second = (await other.say("hello")).pid;
  assert.notEqual(pid, second);
  assert.equal(running("worker").length, 2);

  one.socket.destroy();
  two.socket.destroy();
  await eventually("the worker of chat-1 has ended", () => !isAlive(pid));
  assert.deepEqual(JSON.parse(await next(other.lines)), { ended: "idle" });
  assert.equal(isAlive(second), false);

  const last = client(path, "chat-1");
  assert.notEqual((await last.say("back")).pid, pid);
  host.kill("SIGKILL");
  await nothingIsLeft();
  last.socket.destroy();
});

test("memory provider: three providers have one bridge, each answers for its session, and a crash is gone over", async () => {
  const { host, lines } = start("memory-provider");
  const output = [];
  for (let line; (line = await next(lines)) !== undefined; ) output.push(line);
  assert.deepEqual(output.map((line) => line.match(/summary: '(.*)'/)?.[1]), ["WE MET", "WE MET", "WE MET", "AND WENT ON"]);
  const pids = output.map((line) => line.match(/pid: (\d+)/)[1]);
  assert.equal(new Set(pids.slice(0, 3)).size, 1);
  assert.notEqual(pids[3], pids[0]);
  assert.equal(host.exitCode ?? (await once(host, "exit"))[0], 0);
  await nothingIsLeft();
});

test("gateway: a reload keeps the servers that stay, ends those that go, and goes on without one that fails", async () => {
  const file = join(folder, "servers.json");
  const entry = (...args) => ({ command: "node", args });
  const write = (servers) => writeFileSync(file, JSON.stringify({ servers }));
  write({ one: entry(server("mcp1")), two: entry(server("mcp2")) });
  const { host, lines } = start("gateway", file);
  const first = JSON.parse(await next(lines));
  assert(first.one.includes("echo") && first.two.includes("echo"));
  const [stays] = running("mcp1");

  write({ one: entry(server("mcp1")), bad: entry("no-such-file.mjs") });
  host.kill("SIGHUP");
  const second = JSON.parse(await next(lines));
  assert(second.one.includes("echo"));
  assert.equal(typeof second.bad, "string");
  assert.deepEqual(running("mcp1"), [stays]);
  await eventually("the other is gone", () => running("mcp2").length === 0);

  for (let reload = 0; reload < 10; reload++) {
    write({ one: entry(server("mcp1")) });
    host.kill("SIGHUP");
    await next(lines);
  }
  assert.deepEqual(running("mcp1"), [stays]);
  host.kill("SIGKILL");
  await nothingIsLeft();
});
