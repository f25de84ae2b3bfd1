// For programs that are children, or alone, or look after others: the parent, slots, the registry, sessions, command lines.

import assert from "node:assert/strict";
import { spawn as spawnProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { command, findProgram, registry, Session, Slot, SlotTakenError, spawn, watchParent } from "nostray";
import { eventually, GRACES, isAlive, nothingIsLeft, processes, running, server } from "./support/scene.mjs";

const IMPORT = `import { dieWithParent, Slot, watchParent } from "nostray";`;

/** Starts this code as the child of a process that can be killed, and reads its first line. */
async function underParent(code) {
  const options = JSON.stringify({ cwd: import.meta.dirname, stdio: ["ignore", "inherit", "inherit"] });
  const words = JSON.stringify(["--input-type=module", "-e", IMPORT + code]);
  // Not a shell or a launcher: nostray looks past those.
  const parentCode = `
    const child = require("node:child_process").spawn(process.execPath, ${words}, ${options});
    child.on("exit", () => process.exit());
  `;
  const parent = spawnProcess(process.execPath, ["-e", parentCode], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: parent.stdout });
  const [line] = await once(lines, "line");
  return { parent, lines, line };
}

test("watchParent calls back when the parent is killed", async () => {
  const code = `
    const watch = watchParent(() => { console.log("gone"); process.exit(0); });
    await watch.watching;
    console.log(watch.pid);
    setInterval(() => {}, 1000);
  `;
  const { parent, lines, line } = await underParent(code);
  assert.equal(Number(line), parent.pid);
  const gone = once(lines, "line");
  parent.kill("SIGKILL");
  assert.deepEqual(await gone, ["gone"]);
  await nothingIsLeft();
});

test("dieWithParent ends a program whose event loop hangs", async () => {
  const { parent, line } = await underParent(`await dieWithParent().watching; console.log(process.pid); for (;;);`);
  const pid = Number(line);
  assert(isAlive(pid));
  parent.kill("SIGKILL");
  await eventually("it has ended", () => !isAlive(pid));
  await nothingIsLeft();
});

test("a watch does not keep the event loop alive, and can be stopped", async () => {
  const { line } = await underParent(`await watchParent(() => {}).watching; process.on("exit", () => console.log("ended"));`);
  assert.equal(line, "ended");
  const watch = watchParent(() => assert.fail("the parent lives"));
  await watch.watching;
  assert.equal(watch.pid, process.ppid);
  watch.stop();
  assert.equal(await watch.ended, false);
  const control = new AbortController();
  const other = watchParent({ signal: control.signal });
  await other.watching;
  control.abort();
  assert.equal(await other.ended, false);
  await eventually("the watchers are gone", () => !processes().some(({ words }) => words.includes("wait")));
});

test("a slot has one holder: fail, wait, replace", async () => {
  const first = await Slot.hold("alone");
  assert.equal(first.name, "alone");
  await assert.rejects(Slot.hold("alone", { ifTaken: "fail" }), SlotTakenError);
  await assert.rejects(Slot.hold("alone", { timeout: 50 }), SlotTakenError);
  await assert.rejects(Slot.hold("alone", { signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
  const waiting = Slot.hold("alone");
  await first.release();
  await first.release();
  assert.equal(await first.released, true);
  const second = await waiting;
  await second.release();

  let asked;
  const question = new Promise((resolve) => (asked = (...words) => resolve(words)));
  const third = await Slot.hold("alone", { onAsked: asked });
  const replacing = Slot.hold("alone", { ifTaken: "replace" });
  const [why, holder] = await question;
  assert.equal(typeof why, "string");
  assert.equal(holder, third);
  await third.release();
  await (await replacing)[Symbol.asyncDispose]();
  await nothingIsLeft();
});

test("a holder that is starting is not asked before it is ready", async () => {
  let asked = 0;
  const slot = await Slot.hold("starting", { unready: true, onAsked: () => asked++ });
  const next = Slot.hold("starting", { ifTaken: "replace", timeout: "20s" });
  await assert.rejects(Slot.hold("starting", { ifTaken: "fail" }), SlotTakenError);
  assert.equal(asked, 0);
  slot.ready();
  await eventually("it is asked", () => asked === 1);
  await slot.release();
  await (await next).release();
  await nothingIsLeft();
});

test("a slot is free when its holder is killed, and a holder that does not listen gets SIGTERM", async () => {
  const hold = async () => (await underParent(`await Slot.hold("mortal"); console.log(process.pid); setInterval(() => {}, 1000);`)).line;
  process.kill(Number(await hold()), "SIGKILL");
  const slot = await Slot.hold("mortal", { timeout: "10s" });
  await slot.release();
  const polite = Number(await hold());
  const next = await Slot.hold("mortal", { ifTaken: "replace", timeout: "10s" });
  assert(!isAlive(polite));
  await next.release();
  await nothingIsLeft();
});

test("the registry lists, stops and watches children of this and other processes", async () => {
  const events = registry.watch();
  const child = spawn("sleep", ["600"], { nostray: { session: "chat-1", labels: { task: "42" }, ...GRACES } });
  await once(child, "spawn");
  const [found] = await registry.list({ session: "chat-1" });
  assert.deepEqual([found.id, found.pid, found.session, found.labels.task], [child.id, child.childPid, "chat-1", "42"]);
  assert.equal(found.state, "ready");
  assert(found.started instanceof Date && found.memory > 0 && Array.isArray(found.raw.tree));
  assert.deepEqual((await registry.list({ which: child.id, labels: { task: "42" } })).length, 1);
  assert.deepEqual(await registry.list({ session: "none" }), []);
  const { stopped, text: said } = await registry.stop(child.id, { now: true });
  assert.equal(stopped, true, said);
  assert.equal((await child.ended).reason, "stop-request");
  assert.equal((await registry.stop(child.id)).stopped, false);
  const seen = [];
  for await (const { id, event } of events) {
    if (id === child.id) seen.push(event);
    if (event === "empty") break;
  }
  assert(seen.includes("started") && seen.includes("stopping"), seen.join());
  await nothingIsLeft();
});

test("a sweep ends what is left where all guards were killed", async () => {
  const child = spawn("sh", ["-c", "trap '' TERM; setsid sleep 600 & wait"], { stdio: "ignore" });
  await once(child, "spawn");
  const helper = await eventually("the helper is there", () => processes().find(({ words }) => words[0] === "sleep"));
  const { front, spare, guard } = (await registry.list({ which: child.id }))[0].raw;
  for (const { pid } of [front, spare, guard]) process.kill(pid, "SIGSTOP");
  for (const { pid } of [front, spare, guard]) process.kill(pid, "SIGKILL");
  assert.equal((await child.ended).reason, "keepers-killed");
  const looked = await registry.sweep({ dryRun: true });
  assert(isAlive(helper.pid) || looked.length === 0);
  await eventually("nothing of it is left", async () => {
    await registry.sweep();
    return !isAlive(helper.pid);
  });
  await nothingIsLeft();
});

test("a session closes its children, its leases, and nothing else", async () => {
  const session = new Session("chat-2");
  const bridge = [server("bridge")];
  const child = session.spawn("sleep", ["600"], { nostray: GRACES });
  await once(child, "spawn");
  const lease = session.lease("node", bridge, { protocol: "jsonrpc", ...GRACES });
  const other = new Session("chat-3");
  const survivor = other.lease("node", bridge, { protocol: "jsonrpc", ...GRACES });
  const { pid } = await lease.call("who");
  await survivor.ready();
  assert.equal((await session.close()).stopped, true);
  assert(lease.isClosed);
  assert.equal((await child.ended).reason, "stop-request");
  assert.equal((await survivor.call("who")).pid, pid);
  assert.throws(() => session.spawn("true"), /closed/);
  await other[Symbol.asyncDispose]();
  await nothingIsLeft();
  assert.equal(running("bridge").length, 0);
});

test("`command` gives a command line for frameworks that take one", async () => {
  assert.deepEqual(command("npx", ["-y", "some-server"], { session: "chat-17", termGrace: 30_000 }), {
    command: findProgram(),
    args: ["run", "--session=chat-17", "--term-grace=30000ms", "--", "npx", "-y", "some-server"],
  });
  assert.deepEqual(command("some-server", [], { share: true, key: "memory", respawn: false, shareEnv: ["A", "B"] }).args, [
    "share", "--key=memory", "--no-respawn", "--share-env=A,B", "--", "some-server",
  ]);
  assert.throws(() => command("some-server", [], { share: true, slot: "x" }), /no option 'slot'/);
  const line = command("echo", ["-n", "--session", "mine"]);
  const child = spawnProcess(line.command, line.args, { stdio: ["ignore", "pipe", "inherit"] });
  assert.equal(await text(child.stdout), "-n --session mine".replace("-n ", ""));
  await nothingIsLeft();
});
