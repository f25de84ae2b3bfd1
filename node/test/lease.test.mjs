// One child for all holders of a key: who shares it, how it comes back, when it ends.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { CallError, ChildDiedError, Lease, LeaseClosedError } from "nostray";
import { eventually, GRACES, host, nothingIsLeft, running, server } from "./support/scene.mjs";

const BRIDGE = [server("bridge")];
const open = (options) => new Lease("node", BRIDGE, { protocol: "jsonrpc", ...GRACES, ...options });
const who = async (lease, limits) => (await lease.call("who", {}, limits)).pid;

test("three leases of one command have one child, and the last one that closes ends it", async () => {
  const leases = [open(), open(), open()];
  const pids = await Promise.all(leases.map((lease) => who(lease)));
  assert.deepEqual(new Set(pids), new Set(running("bridge")));
  assert.equal(running("bridge").length, 1);
  await leases[0].close();
  await leases[1].close();
  assert.equal(await who(leases[2]), pids[0]);
  await leases[2].close();
  await nothingIsLeft();
});

test("the key decides who shares: the same command with another key is another child", async () => {
  const [first, second, third] = [open({ key: "one" }), open({ key: "two" }), open({ key: "one", env: { ...process.env, OTHER: "1" } })];
  const pids = await Promise.all([first, second, third].map((lease) => who(lease)));
  assert.equal(pids[0], pids[2]);
  assert.notEqual(pids[0], pids[1]);
  await Promise.all([first.close(), second.close(), third.close()]);
  await nothingIsLeft();
});

test("kill -9 of the child: one new child for all holders, in-flight calls fail, and a call in between waits and is answered", async () => {
  const leases = [open(), open(), open()];
  const [before] = await Promise.all(leases.map((lease) => who(lease)));
  const inFlight = leases.map((lease) => lease.call("hang"));
  const failed = Promise.allSettled(inFlight);
  await Promise.all(leases.map((lease) => who(lease))); // so the child has read what each of them sent before
  process.kill(before, "SIGKILL");
  const inBetween = await Promise.all(leases.map((lease) => who(lease)));
  for (const { reason } of await failed) {
    assert(reason instanceof ChildDiedError, String(reason));
    assert.match(reason.reason, /signal|SIGKILL|killed/);
  }
  assert.equal(new Set(inBetween).size, 1);
  assert.notEqual(inBetween[0], before);
  assert.deepEqual(running("bridge"), [inBetween[0]]);
  await Promise.all(leases.map((lease) => lease.close()));
  await nothingIsLeft();
});

test("an MCP lease shakes hands by itself, also with the child after a crash", async () => {
  for (const name of ["mcp1", "mcp2"]) {
    const lease = new Lease("node", [server(name)], { ...GRACES, clientInfo: { name: "test", version: "1" } });
    const { tools } = await lease.call("tools/list", {});
    assert(tools.some((tool) => tool.name === "who"));
    assert.equal(lease.server.serverInfo.name, name);
    const pid = async () => Number((await lease.call("tools/call", { name: "who", arguments: {} })).content[0].text);
    const before = await pid();
    process.kill(before, "SIGKILL");
    await eventually("it is gone", () => !running(name).includes(before));
    assert.deepEqual([await pid()], running(name));
    await lease.close();
    await nothingIsLeft();
  }
});

test("a hook runs once for each generation, the first one and the one that is there included", async () => {
  const lease = open();
  const seen = [];
  lease.onGeneration((generation) => seen.push(generation));
  await who(lease);
  const late = [];
  lease.onGeneration((generation) => late.push(generation));
  await lease.call("die").catch(() => {});
  await who(lease);
  const third = await lease.restart();
  assert.deepEqual(seen, [1, 2, 3]);
  assert.deepEqual(late, [1, 2, 3]);
  assert.equal(third, 3);
  assert.equal(lease.generation, 3);
  await lease.close();
  assert.equal(lease.generation, null);
  await nothingIsLeft();
});

test("restart gives all holders a new child", async () => {
  const [first, second] = [open(), open()];
  const before = await who(first);
  await second.ready();
  await first.restart();
  assert.notEqual(await who(first), before);
  assert.equal(await who(first), await who(second));
  await Promise.all([first.close(), second.close()]);
  await nothingIsLeft();
});

test("without respawn the session ends with its child, and calls in flight say so", async () => {
  const lease = open({ respawn: false });
  await who(lease);
  const error = await lease.call("die", { code: 7 }).catch((error) => error);
  assert(error instanceof ChildDiedError, String(error));
  const { code } = await lease.closed;
  assert.equal(code, 7);
  await assert.rejects(lease.call("who"), LeaseClosedError);
  await nothingIsLeft();
});

test("a program that is not there is told to all callers", async () => {
  for (const protocol of ["mcp", "jsonrpc"]) {
    const lease = new Lease("/nostray/no-such-program", [], { protocol, stderr: "ignore" });
    const errors = await Promise.all([lease.call("a"), lease.call("b")].map((call) => call.catch((error) => error)));
    for (const error of errors) assert.match(error.message, /not found/, String(error));
    assert.equal((await lease.closed).code, 127);
    assert(lease.isClosed);
    await nothingIsLeft();
  }
});

test("a server that dies at each start fails its callers instead of letting them wait", async () => {
  const lease = new Lease("false", [], { maxFailures: "2/1m", backoff: "10ms..20ms" });
  await assert.rejects(lease.call("tools/list"), ChildDiedError);
  await lease.closed;
  await nothingIsLeft();
});

test("close is idempotent, rejects calls in flight, and no handler is called after it", async () => {
  const lease = open();
  let calls = 0;
  lease.onNotification(() => calls++);
  lease.onRequest("host.slow", () => new Promise(() => {}));
  await lease.call("tell", { count: 3 });
  const hanging = [lease.call("hang"), lease.call("ask", { method: "host.slow" })].map((call) => call.catch((error) => error));
  const told = lease.call("tell", { count: 1000 }).catch((error) => error);
  const closing = [lease.close(), lease.close()];
  const atClose = calls;
  assert((await told) instanceof LeaseClosedError);
  for (const error of await Promise.all(hanging)) assert(error instanceof LeaseClosedError, String(error));
  await Promise.all(closing);
  await lease.close();
  assert.equal(calls, atClose);
  await assert.rejects(lease.call("who"), LeaseClosedError);
  await assert.rejects(lease.notify("who"), LeaseClosedError);
  await assert.rejects(lease.ready(), LeaseClosedError);
  assert.deepEqual(await lease.notifications().next(), { value: undefined, done: true });
  await nothingIsLeft();
});

test("a hook whose call ends since the lease is closed has not failed", async () => {
  const lease = open();
  const failures = [];
  lease.onError((error) => failures.push(error));
  const ended = new Promise((resolve) => {
    lease.onGeneration(() => lease.call("hang").finally(resolve));
  });
  await lease.ready();
  await lease.call("who");
  await lease.close();
  await ended;
  await nothingIsLeft();
  assert.deepEqual(failures, []);
});

test("a call in flight does not keep the process of a lease that is closed", async () => {
  const [first, second] = [open({ eofGrace: "1m" }), open({ eofGrace: "1m" })];
  const hanging = assert.rejects(first.call("hang"), LeaseClosedError);
  await who(first); // so the child has read what came before
  await first.close();
  await hanging;
  // Not killed for taking too long.
  assert.equal((await first.closed).signal, null);
  // The child would have a minute for the call that it hangs in.
  await assert.rejects(second.call("die"), ChildDiedError);
  await second.close();
  await nothingIsLeft();
});

test("`await using` closes it", async () => {
  const lease = open();
  await who(lease);
  await lease[Symbol.asyncDispose]();
  assert(lease.isClosed);
  await nothingIsLeft();
});

test("a signal closes it in the middle of the connect, and before it", async () => {
  const control = new AbortController();
  const lease = new Lease("node", [server("mcp1")], { ...GRACES, signal: control.signal });
  const calls = [lease.ready(), lease.call("tools/list")].map((call) => call.catch((error) => error));
  await eventually("the server is there", () => running("mcp1").length === 1);
  control.abort(new Error("the user has gone"));
  for (const error of await Promise.all(calls)) assert.equal(error.message, "the user has gone");
  await lease.closed;
  await nothingIsLeft();
  assert.throws(() => open({ signal: AbortSignal.abort() }), { name: "AbortError" });
  await nothingIsLeft();
});

test("a child that ignores the end of its input and SIGTERM is gone after its graces", async () => {
  const lease = new Lease("node", [...BRIDGE, "--stubborn"], { protocol: "jsonrpc", ...GRACES });
  await who(lease);
  await lease.close();
  await nothingIsLeft(5_000);
});

test("the process of a lease is killed: this lease ends, the others go on", async () => {
  const [first, second] = [open(), open()];
  const pid = await who(first);
  await second.ready();
  process.kill(first.pid, "SIGKILL");
  assert.equal((await first.closed).signal, "SIGKILL");
  await assert.rejects(first.call("who"), LeaseClosedError);
  assert.equal(await who(second), pid);
  await second.close();
  await nothingIsLeft();
});

test("two processes hold one key and one of them is killed: the other goes on with the same child", async () => {
  const other = spawn(process.execPath, [host("holder"), "hold"], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: other.stdout });
  const lease = open();
  const [[theirs], ours] = await Promise.all([once(lines, "line"), who(lease)]);
  assert.equal(Number(theirs), ours);
  other.kill("SIGKILL");
  await once(other, "close");
  assert.equal(await who(lease), ours);
  await eventually("their lease is gone", () => running("holder").length === 0);
  assert.equal(await who(lease), ours);
  await lease.close();
  await nothingIsLeft();
});

test("an error of the child is a CallError with its code and data", async () => {
  const lease = open();
  const error = await lease.call("fail", { code: -7, message: "so not", data: { why: 1 } }).catch((error) => error);
  assert(error instanceof CallError && !(error instanceof ChildDiedError));
  assert.deepEqual([error.code, error.message, error.data], [-7, "so not", { why: 1 }]);
  await lease.close();
  await nothingIsLeft();
});

test("the last holder closes, and no child comes back", { skip: process.env.NOSTRAY_LONG !== "1" && "NOSTRAY_LONG=1" }, async () => {
  const leases = [open(), open()];
  const pid = await who(leases[0]);
  process.kill(pid, "SIGKILL");
  await Promise.all(leases.map((lease) => lease.close()));
  await nothingIsLeft();
  // A minute in which none may come: this is a test of time.
  const end = Date.now() + 60_000;
  await eventually("a minute has passed", () => {
    assert.deepEqual(running("bridge"), []);
    return Date.now() > end;
  }, 70_000);
});
