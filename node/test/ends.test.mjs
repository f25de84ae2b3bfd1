// Every way in which a host ends or lets go: nothing is left of its children, seen in /proc.

import assert from "node:assert/strict";
import { spawn as spawnProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { Lease, spawn } from "nostray";
import { eventually, GRACES, host, nothingIsLeft, processes, running, server } from "./support/scene.mjs";

const open = (options) => new Lease("node", [server("bridge")], { protocol: "jsonrpc", ...GRACES, ...options });
const who = async (lease) => (await lease.call("who")).pid;

/** Starts a host script and waits for its first line. */
async function start(name, ...args) {
  const child = spawnProcess(process.execPath, ["--expose-gc", host(name), ...args], { stdio: ["pipe", "pipe", "ignore"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => (await lines.next()).value;
  return { child, next, ended: once(child, "close"), line: await next() };
}

const HOSTS = {
  "process.exit": ["exit", () => {}, (code) => code === 5],
  "an exception that is not caught": ["throw", () => {}, (code) => code === 1],
  "process.abort": ["abort", () => {}, (_, signal) => signal === "SIGABRT"],
  "the end of its event loop, with nothing closed": ["return", () => {}, (code) => code === 0],
  "SIGKILL": ["hold", (child) => child.kill("SIGKILL"), (_, signal) => signal === "SIGKILL"],
  "SIGTERM": ["hold", (child) => child.kill("SIGTERM"), (_, signal) => signal === "SIGTERM"],
  "SIGKILL while its event loop hangs in a call": ["loop", (child) => child.kill("SIGKILL"), (_, signal) => signal === "SIGKILL"],
};
for (const [how, [what, act, isRight]] of Object.entries(HOSTS)) {
  test(`a host ends by ${how}: nothing is left of its shared and its contained child`, async () => {
    const { child, line, ended } = await start("holder", what);
    assert(Number(line) > 0);
    act(child);
    assert(isRight(...(await ended)), JSON.stringify(await ended));
    await nothingIsLeft(10_000);
  });
}

test("Ctrl-C, which signals the whole foreground group, ends no lease of a host that handles it", async () => {
  // In a group of its own, as a shell gives it to a job.
  const child = spawnProcess(process.execPath, [host("interrupted")], { detached: true, stdio: ["pipe", "pipe", "ignore"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const before = JSON.parse((await lines.next()).value);
  process.kill(-child.pid, "SIGINT");
  assert.deepEqual(JSON.parse((await lines.next()).value), before, "the same child, and the slot is still held");
  child.kill("SIGKILL");
  await nothingIsLeft();
});

test("a host that is killed in the middle of its connects leaves nothing", async () => {
  for (const delay of [0, 5, 20, 60, 150]) {
    const child = spawnProcess(process.execPath, [host("connecting")], { stdio: ["ignore", "pipe", "ignore"] });
    await once(child.stdout, "data");
    // A moment of the start, chosen by time: this is what is tested.
    await new Promise((resolve) => setTimeout(resolve, delay));
    child.kill("SIGKILL");
    await nothingIsLeft(10_000);
  }
});

test("a host that abandons three providers without closing them has one child, and initialising twice makes no second", async () => {
  const { child, next, line } = await start("provider");
  const first = JSON.parse(line);
  assert.deepEqual(running("mcp1"), [first.pid]);
  child.stdin.write("abandon\n");
  assert.deepEqual(JSON.parse(await next()), { pid: first.pid, leases: 6 });
  assert.deepEqual(running("mcp1"), [first.pid]);
  child.kill("SIGKILL");
  await nothingIsLeft();
});

test("a gateway that reloads ten times has one child at each moment, and none at the end", async () => {
  let current = [];
  let last;
  for (let reload = 0; reload < 10; reload++) {
    const old = current;
    current = [open(), open()];
    const pids = await Promise.all(current.map(who));
    assert.equal(new Set(pids).size, 1);
    assert(running("bridge").length === 1, `one at reload ${reload}`);
    assert(last === undefined || last === pids[0], "the child is kept over a reload");
    last = pids[0];
    await Promise.all(old.map((lease) => lease.close()));
  }
  await Promise.all(current.map((lease) => lease.close()));
  await nothingIsLeft();
  // The other order: a reload that closes first has a new child each time, and never two.
  for (let reload = 0; reload < 10; reload++) {
    const lease = open();
    await who(lease);
    assert.equal(running("bridge").length, 1);
    await lease.close();
  }
  await nothingIsLeft();
});

test("a worker thread that is terminated in the middle of a call releases its lease and its child; other threads go on", async () => {
  const code = `
    const { parentPort, workerData } = require("node:worker_threads");
    import("nostray").then(async ({ Lease, spawn }) => {
      spawn("sleep", ["600"], { stdio: ["pipe", "ignore", "ignore"], nostray: workerData.graces });
      const lease = new Lease("node", [workerData.bridge], { protocol: "jsonrpc", ...workerData.graces });
      parentPort.postMessage((await lease.call("who")).pid);
      lease.call("hang").catch(() => {});
    });
  `;
  const workerData = { bridge: server("bridge"), graces: GRACES };
  const workers = [1, 2].map(() => new Worker(code, { eval: true, workerData, env: process.env }));
  const [[first], [second]] = await Promise.all(workers.map((worker) => once(worker, "message")));
  assert.equal(first, second);
  const own = open();
  assert.equal(await who(own), first);
  await workers[0].terminate();
  assert.equal(await who(own), first);
  await workers[1].terminate();
  await own.close();
  await nothingIsLeft();
});

test("the workers of a cluster share one child; one of them is killed, then the primary", async () => {
  const { child, next, line } = await start("cluster");
  const reports = [line, await next(), await next()].map((text) => JSON.parse(text));
  assert.equal(new Set(reports.map(({ bridge }) => bridge)).size, 1);
  const [victim, other] = reports;
  process.kill(victim.worker, "SIGKILL");
  await eventually("it is gone", () => !processes().some(({ pid }) => pid === victim.worker));
  assert.deepEqual(running("bridge"), [other.bridge]);
  child.kill("SIGKILL");
  await nothingIsLeft(10_000);
});

test("the garbage collector at any point changes nothing", async () => {
  let lease = open();
  const pid = await who(lease);
  let answered;
  {
    const hidden = open();
    answered = hidden.call("slow", { ms: 200 }).then((answer) => hidden.close().then(() => answer));
  }
  const abandoned = new WeakRef(open());
  for (let round = 0; round < 20; round++) {
    global.gc();
    assert.equal(await who(lease), pid);
  }
  assert.equal(await answered, "slow");
  // A lease that no variable names is still a lease, and is released by its process.
  abandoned.deref()?.close();
  for (const { pid, words } of processes()) if (words.includes("share") && pid !== lease.pid) process.kill(pid, "SIGTERM");
  await lease.close();
  lease = undefined;
  global.gc();
  await nothingIsLeft();
});

test("an abandoned lease keeps the loop alive, and with unref it does not", async () => {
  for (const [unref, stays] of [[false, true], [true, false]]) {
    const code = `
      import { Lease } from "nostray";
      const lease = new Lease("node", [${JSON.stringify(server("bridge"))}], { protocol: "jsonrpc", eofGrace: 300, termGrace: 300 });
      await lease.ready();
      ${unref ? "lease.unref();" : ""}
      console.log("held");
    `;
    const child = spawnProcess(process.execPath, ["--input-type=module", "-e", code], {
      cwd: import.meta.dirname,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(child, "exit").then(() => "ended");
    await once(child.stdout, "data");
    // Half a second in which a host without work would end: a test of time.
    const what = await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 500, "stays"))]);
    assert.equal(what, stays ? "stays" : "ended");
    child.kill("SIGKILL");
    await nothingIsLeft();
  }
});

test("too many open files: the error is told, and nothing is left", async () => {
  const code = `
    import { openSync } from "node:fs";
    import { Lease, spawn } from "nostray";
    const ok = new Lease("node", [${JSON.stringify(server("bridge"))}], { protocol: "jsonrpc", eofGrace: 300, termGrace: 300 });
    await ok.call("who");
    try { for (;;) openSync("/dev/null"); } catch {}
    const lease = new Lease("node", ["x"], { protocol: "jsonrpc" });
    const call = await lease.call("who").catch((error) => error.message);
    const child = spawn("true");
    const error = await new Promise((resolve) => child.on("error", resolve));
    console.log(JSON.stringify([call, (await lease.closed).text, error.code, (await child.ended).reason]));
    process.exit();
  `;
  const child = spawnProcess("sh", ["-c", 'ulimit -n 60; exec "$0" --input-type=module -e "$1"', process.execPath, code], {
    cwd: import.meta.dirname,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  const [call, closed, error, reason] = JSON.parse(line);
  assert.match(call, /EMFILE/);
  assert.equal(closed, call);
  assert.deepEqual([error, reason], ["EMFILE", "failed"]);
  await nothingIsLeft();
});
