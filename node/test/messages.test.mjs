// What passes between a host and its child: limits, notifications, requests of the child, and lines that are no messages.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CallError, Lease, LeaseClosedError } from "nostray";
import { eventually, GRACES, nothingIsLeft, server } from "./support/scene.mjs";

const lease = new Lease("node", [server("bridge")], { protocol: "jsonrpc", ...GRACES });
test("a thousand calls at once are each answered with their own answer", async () => {
  const numbers = Array.from({ length: 1000 }, (_, index) => index);
  const answers = await Promise.all(numbers.map((number) => lease.call("echo", { number })));
  assert.deepEqual(answers, numbers.map((number) => ({ number })));
});

test("a timeout rejects the call and tells the child to cancel it", async () => {
  const before = await lease.call("cancelled");
  await assert.rejects(lease.call("hang", {}, { timeout: 50 }), { name: "TimeoutError", message: "'hang' was not answered within 50 ms" });
  await eventually("the child was told", async () => (await lease.call("cancelled")) === before + 1);
});

test("a signal rejects the call with its reason and tells the child to cancel it", async () => {
  const before = await lease.call("cancelled");
  const control = new AbortController();
  const hanging = lease.call("hang", {}, { signal: control.signal });
  await lease.call("who");
  control.abort(new Error("changed my mind"));
  await assert.rejects(hanging, { message: "changed my mind" });
  await eventually("the child was told", async () => (await lease.call("cancelled")) === before + 1);
  await assert.rejects(lease.call("who", {}, { signal: control.signal }), { message: "changed my mind" });
  // A call that was answered is not cancelled later.
  const late = new AbortController();
  await lease.call("who", {}, { signal: late.signal });
  late.abort();
  assert.equal(await lease.call("cancelled"), before + 1);
});

test("many calls have one signal, without a warning", async () => {
  const warnings = [];
  const warn = ({ message }) => warnings.push(message);
  process.on("warning", warn);
  const control = new AbortController();
  const limits = { signal: control.signal, timeout: Infinity };
  await Promise.all(Array.from({ length: 50 }, () => lease.call("who", {}, limits)));
  const hanging = Array.from({ length: 50 }, () => lease.call("hang", {}, limits).catch((error) => error));
  control.abort(new Error("all of them"));
  for (const error of await Promise.all(hanging)) assert.equal(error.message, "all of them");
  process.off("warning", warn);
  assert.deepEqual(warnings, []);
});

test("lines that are no messages do not end the reader", async () => {
  assert.equal(await lease.call("garbage"), "after garbage");
  assert.deepEqual(await lease.call("echo", { still: "here" }), { still: "here" });
});

test("a line of 63 MiB arrives, and a longer one than --max-line is an error of its call alone", { timeout: 120_000 }, async () => {
  const bytes = 63 * 1024 * 1024;
  assert.equal((await lease.call("big", { bytes })).length, bytes);
  await assert.rejects(lease.call("big", { bytes: 65 * 1024 * 1024 }), CallError);
  assert.deepEqual(await lease.call("echo", { still: "here" }), { still: "here" });
});

test("characters that some readers split at, or that are split themselves, arrive", async () => {
  const text = "ä€😀\u2028\u2029\u0085\r".repeat(40_000);
  assert.deepEqual(await lease.call("echo", { text }), { text });
});

test("notifications reach handlers and iterators in their order, and none that were taken away", async () => {
  const [all, some, other] = [[], [], []];
  const feed = lease.notifications({ method: "events.notify" });
  const remove = [
    lease.onNotification((params, method) => all.push([method, params.index])),
    lease.onNotification("events.notify", ({ index }) => some.push(index)),
    lease.onNotification("events.other", () => other.push("never")),
  ];
  await lease.call("tell", { count: 3 });
  const read = [];
  for await (const { method, params } of feed) {
    assert.equal(method, "events.notify");
    if (read.push(params.index) === 3) break;
  }
  assert.deepEqual([read, some, other], [[0, 1, 2], [0, 1, 2], []]);
  assert.deepEqual(all, [0, 1, 2].map((index) => ["events.notify", index]));
  for (const one of remove) one();
  await lease.call("tell", { count: 3 });
  assert.equal(all.length + some.length, 6);
});

test("an iterator that is not read holds its limit, and says how many it has lost", async () => {
  const feed = lease.notifications({ limit: 10 });
  await lease.call("tell", { count: 25 });
  assert.equal(feed.dropped, 15);
  assert.equal((await feed.next()).value.params.index, 15);
  await feed.return();
  assert.deepEqual(await feed.next(), { value: undefined, done: true });
});

test("a handler that throws ends nothing, and is told to onError", async () => {
  const errors = [];
  const remove = [lease.onError((error) => errors.push(error.message)), lease.onNotification(() => { throw new Error("oops"); })];
  await lease.call("tell", { count: 2 });
  assert.deepEqual(errors, ["oops", "oops"]);
  for (const one of remove) one();
});

test("handlers are asked in order: one may decline, and without any the child gets the proper error", async () => {
  const asked = [];
  const remove = [
    lease.onRequest("host.complete", (params, { method }) => {
      asked.push(["first", method, params]);
      return Lease.declined;
    }),
    lease.onRequest("host.complete", async ({ prompt }) => ({ text: prompt.toUpperCase() })),
    lease.onRequest("host.complete", () => asked.push("never")),
  ];
  const ask = (params) => lease.call("ask", { method: "host.complete", params });
  assert.deepEqual(await ask({ prompt: "hi" }), { result: { text: "HI" } });
  assert.deepEqual(asked, [["first", "host.complete", { prompt: "hi" }]]);
  remove[1]();
  remove[2]();
  const { error } = await ask({ prompt: "hi" });
  assert.equal(error.code, -32601);
  remove[0]();
  assert.equal((await ask({})).error.code, -32601);
});

test("a handler answers with an error by throwing one", async () => {
  const remove = [
    lease.onRequest("host.refuse", () => { throw new CallError("not you", { code: -7, data: [1] }); }),
    lease.onRequest("host.break", async () => { throw new Error("broken"); }),
  ];
  assert.deepEqual(await lease.call("ask", { method: "host.refuse" }), { error: { code: -7, message: "not you", data: [1] } });
  assert.deepEqual(await lease.call("ask", { method: "host.break" }), { error: { code: -32603, message: "broken" } });
  for (const one of remove) one();
});

test("a request that the child cancels aborts the handler's signal", async () => {
  const aborted = new Promise((resolve) => {
    lease.onRequest("host.long", (_, { signal }) => new Promise(() => signal.addEventListener("abort", resolve)));
  });
  await lease.call("askAndCancel", { method: "host.long" });
  await aborted;
});

test("a handler may call the child while the child waits for it", async () => {
  const remove = lease.onRequest("host.who", () => lease.call("who"));
  const { result } = await lease.call("ask", { method: "host.who" });
  assert.equal(result.pid, (await lease.call("who")).pid);
  remove();
});

test("an option that does not exist, and a protocol that does not, are errors at once", () => {
  assert.throws(() => new Lease("node", [], { linguer: 5 }), { message: "nostray has no option 'linguer' here" });
  assert.throws(() => new Lease("node", [], { protocol: "lsp" }), TypeError);
  assert.throws(() => new Lease("node", [], { linger: -1 }), TypeError);
});

test("what waits for the handshake is rejected when the lease is closed, and a cancelled call is never sent", async () => {
  const silent = new Lease("sleep", ["600"], GRACES);
  const call = silent.call("tools/list", {}, { timeout: 50 });
  await assert.rejects(call, { name: "TimeoutError" });
  const waiting = [silent.call("a"), silent.notify("b"), silent.ready()].map((call) => call.catch((error) => error));
  await silent.close();
  for (const error of await Promise.all(waiting)) assert(error instanceof LeaseClosedError, String(error));
});

test("and nothing is left of it", async () => {
  await lease.close();
  await nothingIsLeft();
});
