// `spawn` of node:child_process, with the child's tree tied to this process.
//
// The process that Node starts and knows is the front, `nostray run`. The child has this process's own pipes. The front tells what happens
// through one more pipe, the status, behind the descriptors that the caller asked for. Two events of Node's are held back until the status
// explains them: `spawn` until the child has become its program, `exit` until nothing is left of its tree. So the events, `exitCode` and
// `signalCode` tell of the child, although Node sees the front.
import { spawn as spawnProcess } from "node:child_process";
import { constants } from "node:os";
import { CONTAINED, toArguments } from "./arguments.js";
import { NostrayError, SlotTakenError } from "./errors.js";
import { readEvents } from "./lines.js";
import { findProgram } from "./program.js";

// Two signals that come at the same time are one, and on a busy machine they may.
const SECOND_SIGNAL = 200;

const nameOf = (table, number) => Object.keys(table).find((name) => table[name] === number);

export function spawn(command, args, options) {
  if (!Array.isArray(args)) [args, options] = [[], options ?? args];
  if (typeof command !== "string" || command === "") throw new TypeError("the command must be a string with a character at least");
  const { nostray, shell, argv0, ...rest } = options ?? {};
  // Node would start its shell around nostray, so the shell is the child here.
  const [file, words] = shell
    ? [shell === true ? "/bin/sh" : shell, ["-c", [command, ...args].join(" ")]]
    : [command, args];
  const stdio = typeof rest.stdio === "string" ? Array(3).fill(rest.stdio) : [...(rest.stdio ?? [])];
  while (stdio.length < 3) stdio.push("pipe");
  const front = [
    "run",
    ...toArguments(nostray, CONTAINED),
    `--status-fd=${stdio.length}`,
    ...(argv0 === undefined ? [] : [`--argv0=${argv0}`]),
    "--",
    file,
    ...words.map(String),
  ];
  const child = spawnProcess(findProgram(), front, { ...rest, stdio: [...stdio, "pipe"] });
  // An error of Node's own names what the caller asked for.
  child.spawnfile = file;
  child.spawnargs = [argv0 ?? file, ...words];
  return contain(child, stdio.length, { env: rest.env, uid: rest.uid, gid: rest.gid, stdio: "ignore" });
}

/** Gives a front the behaviour of its child. `asFront` are the options with which the program finds the same records. */
function contain(child, at, asFront) {
  const { emit, kill, ref, unref } = child;
  const status = child.stdio?.[at];
  let keepsLoopAlive = true;
  let endNow = false;
  let statusIsOver = status === undefined;
  let frontEnd; // what Node says of the front: [code, signal]
  let exited; // what the status says of the child
  let problem; // why there was no child
  let hasSpoken = false;
  let isWaiting = false;
  let isSpawned = false;
  let over = false;
  const exit = { code: null, signal: null, reason: null, text: null };
  let tellEnd;

  child.id = null;
  child.childPid = null;
  child.ended = new Promise((resolve) => (tellEnd = resolve));

  const notStarted = (reason, error) => {
    problem = error;
    exit.reason = reason;
    exit.text = error.message;
  };
  const kinds = {
    waiting({ text }) {
      isWaiting = true;
      if (endNow) stopNow();
      else emit.call(child, "waiting", text);
    },
    started({ id, pid }) {
      child.id = id;
      child.childPid = pid ?? null;
      if (endNow) stopNow();
    },
    executed() {
      isSpawned = true;
      emit.call(child, "spawn");
    },
    ready() {
      emit.call(child, "ready");
    },
    stopping({ reason, text }) {
      exit.reason = reason;
      exit.text = text;
    },
    exited(event) {
      exited ??= event;
    },
    "not-executed"({ errno, text }) {
      const [file, ...spawnargs] = [child.spawnfile, ...child.spawnargs.slice(1)];
      const code = nameOf(constants.errno, errno) ?? `errno ${errno}`;
      const error = new Error(`spawn ${file} ${code}`);
      exited = { code: -errno };
      notStarted("not-executed", Object.assign(error, { errno: -errno, code, syscall: `spawn ${file}`, path: file, spawnargs }));
      exit.text = text;
    },
    refused({ text }) {
      notStarted("refused", new SlotTakenError(text));
    },
    failed({ text }) {
      notStarted("failed", new NostrayError(text));
    },
  };

  function conclude() {
    if (over || frontEnd === undefined || !statusIsOver) return;
    over = true;
    // It did not understand its command line, or could not begin.
    if (!hasSpoken && frontEnd[0] !== null) kinds.failed({ text: `nostray exited with code ${frontEnd[0]}, and says why on stderr` });
    const [code, signal] = exited === undefined ? frontEnd : [exited.code ?? null, nameOf(constants.signals, exited.signal) ?? null];
    Object.assign(child, { exitCode: code, signalCode: signal });
    exit.reason ??= exited ? "child-ended" : child.id === null ? "not-started" : "keepers-killed";
    tellEnd(Object.assign(exit, problem ? {} : { code, signal }));
    if (problem) return emit.call(child, "error", problem);
    // A tree that is torn down while its child becomes its program may end untold.
    if (exited && !isSpawned) kinds.executed();
    emit.call(child, "exit", code, signal);
  }

  function stopNow() {
    if (child.id === null) return kill.call(child, "SIGKILL"); // the front alone, which waits for its slot
    const stop = spawnProcess(findProgram(), ["stop", "--now", child.id], asFront);
    // Without records there is nothing to stop by. A second signal to the front ends the graces of its tree, too.
    const failed = () => {
      if (over) return;
      const signal = () => (over ? clearInterval(again) : kill.call(child, "SIGTERM"));
      const again = setInterval(signal, SECOND_SIGNAL).unref();
      signal();
    };
    stop.on("error", failed).on("exit", (code) => code === 0 || failed());
    stop.unref();
  }

  child.emit = function (event, ...rest) {
    if (event === "spawn") return false; // see `executed`
    if (event === "exit") {
      frontEnd = rest;
      Object.assign(child, { exitCode: null, signalCode: null });
      // Only the status keeps the loop alive from here on.
      if (keepsLoopAlive) status?.ref();
      conclude();
      return true;
    }
    if (event === "error" && child.pid === undefined && !over) {
      over = true;
      tellEnd(Object.assign(exit, { reason: "failed", text: rest[0].message }));
    }
    return emit.call(child, event, ...rest);
  };
  // SIGKILL to the front would begin the graces of its tree. To the caller it means: now.
  child.kill = function (signal = "SIGTERM") {
    const isKill = signal === constants.signals.SIGKILL || String(signal).toUpperCase() === "SIGKILL";
    if (!isKill || child.pid === undefined) return kill.call(child, signal);
    if (over) return false;
    // Before it has an id, or waits, there is nothing to stop yet.
    if (!endNow && (isWaiting || child.id !== null)) stopNow();
    endNow = true;
    child.killed = true;
    return true;
  };
  child.ref = () => {
    keepsLoopAlive = true;
    ref.call(child);
  };
  child.unref = () => {
    keepsLoopAlive = false;
    unref.call(child);
  };

  if (status === undefined) return child;
  // The caller's descriptors only. Node still waits for this one before it emits `close`.
  child.stdio.length = at;
  status.unref();
  readEvents(status, (event) => {
    hasSpoken = true;
    kinds[event.event]?.(event);
  });
  const statusEnds = () => {
    statusIsOver = true;
    conclude();
  };
  status.on("end", statusEnds).on("error", statusEnds);
  return child;
}
