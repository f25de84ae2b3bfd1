// A hold on a child that all holders of its key share, in this process and in others.
//
// A lease is a process: `nostray share` over its own pipes. The kernel counts it, so a lease ends with `close`, with its thread, or with
// this process, however that ends; nothing depends on the garbage collector or on an event loop that still turns. What is here is that
// process, and what its status says of the child; rpc.js has what passes through its pipes.
import { spawn } from "node:child_process";
import { SHARE, toArguments } from "./arguments.js";
import { ask } from "./ask.js";
import { asyncDispose } from "./dispose.js";
import { ChildDiedError, LeaseClosedError } from "./errors.js";
import { limited } from "./limits.js";
import { readEvents, readLines } from "./lines.js";
import { findProgram } from "./program.js";
import { added, DECLINED, Rpc } from "./rpc.js";

const CLIENT = { name: "nostray", version: "1" };
const PROTOCOL_VERSION = "2025-11-25";
// A child may die while it reads the handshake. The front starts the next one, which is told again; a child that dies each time is broken.
const HANDSHAKES = 3;
// A front whose stdin ends has nothing to do but to end.
const FRONT_GRACE = 5000;

export class Lease {
  static declined = DECLINED;

  #front;
  #rpc;
  #env;
  #id = null;
  #alone = null;
  #server;
  #generation = null;
  #generationHooks = new Set();
  #waiters = new Set(); // called whenever something has changed that `ready` and `restart` wait for
  #lastWords; // why the child or the session ended, as the front says
  #forgetSignal;

  constructor(command, args, options) {
    if (!Array.isArray(args)) [args, options] = [[], options ?? args];
    const {
      protocol = "mcp",
      handshake = protocol === "mcp",
      protocolVersion = PROTOCOL_VERSION,
      capabilities = {},
      clientInfo = CLIENT,
      env,
      cwd,
      stderr = "inherit",
      signal,
      ...share
    } = options ?? {};
    signal?.throwIfAborted();
    this.#env = env;
    this.#rpc = new Rpc(protocol, (message, done) => this.#front.stdin?.write(`${JSON.stringify(message)}\n`, done));
    const words = toArguments({ linger: 0, respawn: true, protocol, ...share }, SHARE);
    this.#front = spawn(findProgram(), ["share", ...words, "--status-fd=3", "--", command, ...args.map(String)], {
      env,
      cwd,
      // Ctrl-C signals the whole foreground group of a terminal. It is for the host, which may go on.
      detached: true,
      stdio: ["pipe", "pipe", stderr, "pipe"],
    });
    this.closed = new Promise((resolve) => this.#attach(resolve));
    this.#forgetSignal = limited({ signal }, "", (reason) => this.#close(reason));
    if (handshake) this.#shakeHands({ protocolVersion, capabilities, clientInfo });
    else this.#rpc.open();
  }

  // The front

  #attach(resolve) {
    const front = this.#front;
    const over = (code, signal) => {
      const text = this.#lastWords;
      const ended = code === null ? `was killed by ${signal}` : `exited with code ${code}`;
      // Without --respawn the front leaves calls in flight unanswered, as a child that dies does.
      const ofCalls = text && new ChildDiedError(text, { code: -32000, data: { nostray: { cause: text } } });
      this.#shut(new LeaseClosedError(text ?? `the process of this lease ${ended}`), ofCalls);
      resolve({ code, signal, text: String(this.#rpc.end?.message ?? this.#rpc.end) });
    };
    front.on("close", over);
    front.on("error", (error) => {
      this.#lastWords ??= error.message;
      if (front.stdio === undefined) over(null, null); // too many open files: there is nothing to close
    });
    if (front.stdio === undefined) return;
    const [stdin, stdout, , status] = front.stdio;
    // A front that has ended says so by its exit.
    for (const stream of [stdin, stdout, status]) stream.on("error", () => {});
    readLines(stdout, (line) => this.#rpc.onLine(line));
    readEvents(status, (event) => this.#onEvent(event));
  }

  #onEvent({ event, ...said }) {
    if (this.isClosed) return;
    if (event === "attached") this.#id = said.id;
    else if (event === "alone") this.#alone = said.text;
    else if (event === "up") this.#onUp(said.generation);
    else if (event === "down") this.#generation = null;
    if (["down", "over", "failed"].includes(event)) this.#lastWords = said.text;
    this.#changed();
  }

  #onUp(generation) {
    this.#generation = generation;
    this.#lastWords = undefined;
    for (const hook of [...this.#generationHooks]) this.#rpc.run(() => hook(generation));
  }

  async #shakeHands(params) {
    try {
      for (let times = 1; this.#server === undefined; times++) {
        try {
          this.#server = await this.#rpc.call("initialize", params, {}, true);
        } catch (error) {
          if (!(error instanceof ChildDiedError) || times === HANDSHAKES) throw error;
        }
      }
      this.#rpc.notify("notifications/initialized", undefined, true).catch(() => {});
      this.#rpc.open();
      this.#changed();
    } catch (error) {
      this.#close(error);
    }
  }

  #changed() {
    for (const look of [...this.#waiters]) look();
  }

  /** Resolves as soon as `check` gives a value; rejects when the lease is closed. */
  #until(check, limits = {}, what) {
    return new Promise((resolve, reject) => {
      limits.signal?.throwIfAborted();
      const look = () => {
        const value = this.isClosed ? undefined : check();
        if (!this.isClosed && value === undefined) return;
        this.#waiters.delete(look);
        forget();
        this.isClosed ? reject(this.#rpc.end) : resolve(value);
      };
      const forget = limited(limits, what, (error) => {
        this.#waiters.delete(look);
        reject(error);
      });
      this.#waiters.add(look);
      look();
    });
  }

  // Messages

  call(method, params, limits) {
    return this.#rpc.call(method, params, limits);
  }

  notify(method, params) {
    return this.#rpc.notify(method, params);
  }

  onNotification(method, handler) {
    return this.#rpc.onNotification(method, handler);
  }

  notifications(options) {
    return this.#rpc.notifications(options);
  }

  onRequest(method, handler) {
    return this.#rpc.onRequest(method, handler);
  }

  onError(handler) {
    return this.#rpc.onError(handler);
  }

  // The child

  get generation() {
    return this.#generation;
  }

  get server() {
    return this.#server;
  }

  get id() {
    return this.#id;
  }

  get pid() {
    return this.#front.pid;
  }

  get alone() {
    return this.#alone;
  }

  onGeneration(hook) {
    const entry = (generation) => hook(generation);
    const now = this.#generation;
    if (now !== null) {
      // Not before this function has returned. A newer child in between has its own call.
      queueMicrotask(() => {
        if (this.#generationHooks.has(entry) && this.#generation === now) this.#rpc.run(() => entry(now));
      });
    }
    return added(this.#generationHooks, entry);
  }

  ready(limits) {
    return this.#until(() => (this.#rpc.isOpen ? (this.#generation ?? undefined) : undefined), limits, "the child was not ready");
  }

  async restart(limits) {
    const id = await this.#until(() => this.#id ?? undefined, limits, "the child was not there");
    const before = this.#generation;
    await ask(["restart", id], { env: this.#env, signal: limits?.signal });
    const after = () => (this.#generation === before ? undefined : (this.#generation ?? undefined));
    return this.#until(after, limits, "no new child was there");
  }

  // The end

  get isClosed() {
    return this.#rpc.end !== undefined;
  }

  #shut(error, ofCalls) {
    this.#rpc.close(error, ofCalls);
    this.#generation = null;
    this.#generationHooks.clear();
    this.#forgetSignal?.();
    this.#changed();
  }

  #close(error) {
    if (this.isClosed) return;
    this.#shut(error);
    this.#front.stdin?.end();
    // A front that could still write would wait for the answers of calls in flight.
    this.#front.stdout?.destroy();
    const impatient = setTimeout(() => this.#front.kill("SIGKILL"), FRONT_GRACE).unref();
    this.closed.then(() => clearTimeout(impatient));
  }

  async close() {
    this.#close(new LeaseClosedError("the lease was closed"));
    await this.closed;
  }

  [asyncDispose]() {
    return this.close();
  }

  ref() {
    return this.#each("ref");
  }

  unref() {
    return this.#each("unref");
  }

  #each(what) {
    for (const handle of [this.#front, ...(this.#front.stdio ?? [])]) handle?.[what]?.();
    return this;
  }
}
