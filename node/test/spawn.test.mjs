// `spawn` behaves as that of node:child_process, and nothing of the tree is left.

import assert from "node:assert/strict";
import * as node from "node:child_process";
import { once } from "node:events";
import { openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { NostrayError, SlotTakenError, spawn } from "nostray";
import { eventually, folder, GRACES, isAlive, nothingIsLeft, processes, programOf } from "./support/scene.mjs";

const nostray = GRACES;

/** A host that is this text. */
function run(code) {
  const options = { cwd: import.meta.dirname, stdio: ["ignore", "pipe", "inherit"] };
  return node.spawn(process.execPath, ["--input-type=module", "-e", code], options);
}

/** What a host sees of a child, with either function. */
async function seen(start, ...args) {
  const child = start(...args);
  const events = [];
  for (const event of ["spawn", "exit", "close", "error"]) {
    child.on(event, (...values) => events.push([event, ...values.map((value) => value?.code ?? value)]));
  }
  const out = [child.stdout, child.stderr].map((stream) => stream && text(stream));
  child.stdin?.on("error", () => {}); // it may have ended before it reads
  child.stdin?.end("input");
  const [stdout, stderr] = await Promise.all(out);
  if (child.exitCode === null && child.signalCode === null) await once(child, "close").catch(() => {});
  await eventually("close", () => events.some(([event]) => event === "close"));
  return { events, stdout, stderr, exitCode: child.exitCode, signalCode: child.signalCode, killed: child.killed };
}

const SAME = {
  "output, input and code": ["sh", ["-c", "cat; echo out; echo err >&2; exit 3"]],
  "a child that a signal ends": ["sh", ["-c", "kill -9 $$"]],
  "a shell": ["echo $0 $((1 + 1)); exit 4", { shell: true }],
  "a shell of another name, with arguments": ["echo", ["a  b", "'c  d'"], { shell: "/bin/bash" }],
  "another name for the child": ["sh", ["-c", "tr '\\0' ' ' < /proc/$$/cmdline"], { argv0: "other" }],
  "a directory": ["pwd", [], { cwd: "/" }],
  "ignored streams": ["sh", ["-c", "echo unheard; exit 1"], { stdio: "ignore" }],
  "an environment": ["env", { env: { PATH: process.env.PATH, XDG_RUNTIME_DIR: folder, A: "b" } }],
  "no arguments": ["true"],
};
for (const [what, args] of Object.entries(SAME)) {
  test(`a host sees the same as with node's own: ${what}`, async () => {
    const [mine, nodes] = await Promise.all([seen(spawn, ...args), seen(node.spawn, ...args)]);
    // One variable is nostray's, and is documented.
    if (mine.stdout) mine.stdout = mine.stdout.replace(/^NOSTRAY\w*=.*\n/gm, "");
    assert.deepEqual(mine, nodes);
    await nothingIsLeft();
  });
}

const BAD = { "a program that is not there": "/nostray/no-such-program", "a file that cannot be executed": "/etc/passwd" };
for (const [what, path] of Object.entries(BAD)) {
  test(`${what} gives the same error as with node's own`, async () => {
    const errors = [];
    for (const start of [spawn, node.spawn]) {
      const child = start(path, ["with", "words"]);
      child.stderr.resume();
      const [error] = await once(child, "error");
      const { message, code, errno, syscall, path: named, spawnargs } = error;
      errors.push({ message, code, errno, syscall, named, spawnargs, exitCode: child.exitCode });
    }
    assert.deepEqual(errors[0], errors[1]);
    await nothingIsLeft();
  });
}

test("a directory that is not there gives the same error as with node's own", async () => {
  const errors = [];
  for (const start of [spawn, node.spawn]) {
    const [error] = await once(start("true", [], { cwd: "/nostray/none" }), "error");
    errors.push({ message: error.message, code: error.code, path: error.path });
  }
  assert.deepEqual(errors[0], errors[1]);
});

test("a command that is no string is an error at once", () => {
  assert.throws(() => spawn(""), TypeError);
  assert.throws(() => spawn(undefined), TypeError);
  assert.throws(() => spawn("true", [], { nostray: { sessoin: "x" } }), { message: "nostray has no option 'sessoin' here" });
});

const has = (actual, expected) => assert.deepEqual({ ...actual, ...expected }, actual);

test("`ended` tells the code, the signal and why", async () => {
  const ends = async (child, act = () => {}) => {
    await once(child, "spawn");
    await act(child);
    return child.ended;
  };
  const sleep = () => spawn("sleep", ["600"], { nostray });
  has(await ends(spawn("sh", ["-c", "exit 3"])), { code: 3, signal: null, reason: "child-ended" });
  const closed = await ends(sleep(), (child) => child.stdin.end());
  has(closed, { code: null, signal: "SIGTERM", reason: "stdin-closed", text: "stdin was closed" });
  const terminated = await ends(sleep(), (child) => child.kill());
  has(terminated, { code: null, signal: "SIGTERM", reason: "signal" });
  const killed = await ends(sleep(), (child) => child.kill("SIGKILL"));
  has(killed, { code: null, signal: "SIGKILL", reason: "stop-request" });
  const gone = spawn("/nostray/no-such-program", { stdio: "ignore" }).on("error", () => {});
  has(await gone.ended, { code: null, signal: null, reason: "not-executed" });
  await nothingIsLeft();
});

test("kill('SIGKILL') ends a tree that ignores everything else, at once", async () => {
  const script = "trap '' TERM INT HUP; (setsid sleep 600 &) ; sleep 600; sleep 600";
  const child = spawn("sh", ["-c", script], { nostray: { eofGrace: "1h", termGrace: "1h" } });
  await once(child, "spawn");
  await eventually("the grandchild is there", () => processes().filter(({ words }) => words[0] === "sleep").length >= 2);
  assert.equal(child.kill("SIGKILL"), true);
  assert.equal(child.killed, true);
  const [code, signal] = await once(child, "exit");
  assert.deepEqual([code, signal], [null, "SIGKILL"]);
  assert.equal(child.kill("SIGKILL"), false);
  await nothingIsLeft(5_000);
});

test("kill('SIGKILL') before the child is there ends it, too", async () => {
  const child = spawn("sleep", ["600"], { nostray: { eofGrace: "1h", termGrace: "1h" } });
  assert.equal(child.kill(9), true);
  assert.equal((await child.ended).signal, "SIGKILL");
  await nothingIsLeft(5_000);
});

const needsRoot = { skip: process.getuid() !== 0 && "needs root" };
test("kill('SIGKILL') works without records, and for a child of another user", needsRoot, async () => {
  const options = { uid: 65534, gid: 65534, stdio: ["pipe", "pipe", "ignore"], nostray: { eofGrace: "1h", termGrace: "1h" } };
  const child = spawn("sh", ["-c", "trap '' TERM; id -u; sleep 600; sleep 600"], options);
  assert.equal(String((await once(child.stdout, "data"))[0]), "65534\n");
  child.kill("SIGKILL");
  assert.equal((await child.ended).signal, "SIGKILL");
  await nothingIsLeft(5_000);
});

test("other signals reach the child", async () => {
  const child = spawn("sh", ["-c", "trap 'echo usr1; exit 0' USR1; echo up; while :; do sleep 0.05; done"], { nostray });
  const output = text(child.stdout);
  await once(child.stdout, "data");
  child.kill("SIGUSR1");
  assert.equal((await child.ended).code, 0);
  assert.match(await output, /usr1/);
  await nothingIsLeft();
});

test("`signal` and `timeout` end it as with node's own", async () => {
  const control = new AbortController();
  const child = spawn("sleep", ["600"], { signal: control.signal, nostray });
  await once(child, "spawn");
  const failed = once(child, "error");
  control.abort();
  assert.equal((await failed)[0].name, "AbortError");
  assert.equal((await child.ended).signal, "SIGTERM");
  const hard = spawn("sleep", ["600"], { timeout: 100, killSignal: "SIGKILL", nostray });
  assert.equal((await hard.ended).signal, "SIGKILL");
  await nothingIsLeft();
});

test("further descriptors and the IPC channel are the child's, and the status is not seen", async () => {
  const script = join(folder, "ipc.mjs");
  writeFileSync(script, `
    import { readdirSync, readlinkSync, writeSync } from "node:fs";
    writeSync(3, "three");
    const files = readdirSync("/proc/self/fd").length;
    process.on("message", (message) => { process.send({ got: message, files }); process.disconnect(); });
    process.send("up");
  `);
  const run = async (start) => {
    const file = join(folder, `three-${start === spawn}`);
    const child = start(process.execPath, [script], {
      stdio: ["ignore", "ignore", "inherit", openSync(file, "w"), "ipc"],
      serialization: "advanced",
    });
    assert.equal(child.stdio.length, 5);
    const messages = [];
    child.on("message", (message) => {
      messages.push(message);
      if (message === "up") child.send(new Map([[1, 2]]));
    });
    const [code] = await once(child, "exit");
    return { code, messages, file: readFileSync(file, "utf8"), connected: child.connected };
  };
  const mine = await run(spawn);
  assert.deepEqual(mine.messages[1].got, new Map([[1, 2]]));
  assert.deepEqual(mine, await run(node.spawn));
  await nothingIsLeft();
});

test("the tree ends with the child: a grandchild in a session of its own does not stay", async () => {
  const child = spawn("sh", ["-c", "setsid sleep 600 & echo $!"], { stdio: ["ignore", "pipe", "inherit"], nostray });
  const pid = Number(await text(child.stdout).then((out) => out.trim()));
  assert.equal((await child.ended).code, 0);
  assert.equal(isAlive(pid), false);
  await nothingIsLeft();
});

test("`exit` waits until the tree is empty, also when the front is killed", async () => {
  // Node closes the stdin of a process that ends, and then the journal may name that first.
  const child = spawn("sleep", ["600"], { stdio: "ignore", nostray });
  await once(child, "spawn");
  const { pid, childPid } = child;
  assert.match(programOf(childPid), /sleep|coreutils|busybox/);
  assert.notEqual(pid, childPid);
  process.kill(pid, "SIGKILL");
  const [code, signal] = await once(child, "exit");
  assert.equal(isAlive(childPid), false);
  assert.deepEqual([code, signal], [null, "SIGTERM"]);
  assert.equal((await child.ended).reason, "front-killed");
  await nothingIsLeft();
});

test("a slot that is taken is an error, and nothing is started", async () => {
  const slot = { slot: "spawn-test", ...GRACES };
  const holder = spawn("sleep", ["600"], { nostray: slot });
  await once(holder, "spawn");
  const second = spawn("sleep", ["600"], { stdio: "ignore", nostray: { ...slot, ifTaken: "fail" } });
  const [error] = await once(second, "error");
  assert(error instanceof SlotTakenError, String(error));
  assert.equal((await second.ended).reason, "refused");
  // Two that wait for the slot are given up: at once, and when they are known to wait.
  for (const isPatient of [false, true]) {
    const waiting = spawn("sleep", ["600"], { stdio: "ignore", nostray: slot });
    if (isPatient) assert.match((await once(waiting, "waiting"))[0], /spawn-test/);
    assert.equal(waiting.kill("SIGKILL"), true);
    assert.equal((await waiting.ended).reason, "not-started");
  }
  holder.kill("SIGKILL");
  await holder.ended;
  await nothingIsLeft();
});

test("a value that the program does not take is an error, and nothing is started", async () => {
  const child = spawn("true", [], { stdio: "ignore", nostray: { termGrace: "soon" } });
  const [error] = await once(child, "error");
  assert(error instanceof NostrayError, String(error));
  assert.equal((await child.ended).reason, "failed");
});

test("`ready` is emitted as its definition says", async () => {
  const child = spawn("sh", ["-c", "read line; echo it is up >&2; read line"], { nostray: { readyLine: "is up", ...GRACES } });
  await once(child, "spawn");
  let isReady = false;
  child.on("ready", () => (isReady = true));
  assert.equal(isReady, false);
  child.stdin.write("go\n");
  await once(child, "ready");
  child.stdin.end();
  await child.ended;
  await nothingIsLeft();
});

test("a child that was given up by unref does not keep the event loop alive, and ends with it", async () => {
  const code = `
    import { spawn } from "nostray";
    const child = spawn("sleep", ["600"], { stdio: "ignore", nostray: ${JSON.stringify(GRACES)} });
    child.on("spawn", () => { console.log(child.childPid); child.unref(); });
  `;
  const host = run(code);
  const pid = Number(await text(host.stdout));
  assert(pid > 0);
  await nothingIsLeft(5_000);
});

test("a child that ends keeps the loop alive until its exit was told", async () => {
  const code = `
    import { spawn } from "nostray";
    const child = spawn("true", [], { stdio: "ignore" });
    child.on("exit", (code) => console.log("exit", code));
    child.on("close", (code) => console.log("close", code));
    console.log("ended", (await child.ended).code);
  `;
  const host = run(code);
  assert.deepEqual((await text(host.stdout)).trim().split("\n").sort(), ["close 0", "ended 0", "exit 0"]);
  await nothingIsLeft();
});
