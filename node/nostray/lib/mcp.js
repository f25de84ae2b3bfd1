// `StdioClientTransport` of the TypeScript SDK, for 1.x and 2.x: the server is contained, or shared with `share: true`. It is written
// without the SDK, so it fits the one that the host has. Rules that the SDK has (environment, limits, graces) are kept.
import { spawn as spawnProcess } from "node:child_process";
import { PassThrough } from "node:stream";
import { command as commandLine } from "./arguments.js";
import { readLines } from "./lines.js";
import { spawn } from "./spawn.js";

export const DEFAULT_INHERITED_ENV_VARS = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

export function getDefaultEnvironment() {
  const given = DEFAULT_INHERITED_ENV_VARS.map((name) => [name, process.env[name]]);
  // A value that begins so is a function of a shell.
  return Object.fromEntries(given.filter(([, value]) => value !== undefined && !value.startsWith("()")));
}

const MAX_BUFFER_SIZE = 10 * 1024 * 1024;
// The times after which the SDK sends SIGTERM and SIGKILL.
const GRACES = { eofGrace: 2000, termGrace: 2000 };

function spawnShared(program, words, options, own) {
  const { command, args } = commandLine(program, words, { linger: 0, ...own, share: true });
  return spawnProcess(command, args, options);
}

export class StdioClientTransport {
  // 2.x looks for two names, this and `_dispose`: it makes a second process from the same parameters, and asks that one which protocol
  // the server speaks.
  _serverParams;
  #process;
  #stderr = null;
  onclose;
  onerror;
  onmessage;

  constructor(server) {
    this._serverParams = server;
    if (server.stderr === "pipe" || server.stderr === "overlapped") this.#stderr = new PassThrough();
  }

  async start() {
    if (this.#process) {
      throw new Error(
        "StdioClientTransport already started! If using Client class, note that connect() calls start() automatically.",
      );
    }
    const { command, args = [], env, cwd, stderr = "inherit", share, nostray, maxBufferSize = MAX_BUFFER_SIZE } = this._serverParams;
    const options = { env: { ...getDefaultEnvironment(), ...env }, stdio: ["pipe", "pipe", stderr], cwd };
    const own = { ...GRACES, ...nostray };
    const server = share ? spawnShared(command, args, options, own) : spawn(command, args, { ...options, nostray: own });
    this.#process = server;
    await new Promise((resolve, reject) => {
      server.on("spawn", resolve);
      server.on("error", (error) => {
        if (server.pid === undefined) this.#process = undefined; // there is nothing to close
        reject(error);
        this.onerror?.(error);
      });
      server.on("close", () => {
        if (this.#process === server) this.#process = undefined;
        this.onclose?.();
      });
      server.stdin?.on("error", (error) => this.onerror?.(error));
      server.stdout?.on("error", (error) => this.onerror?.(error));
      if (server.stdout) this.#read(server.stdout, maxBufferSize);
      if (this.#stderr && server.stderr) server.stderr.pipe(this.#stderr);
    });
  }

  #read(stdout, limit) {
    let unread = 0;
    stdout.on("data", (chunk) => {
      const end = chunk.lastIndexOf(10);
      unread = end === -1 ? unread + chunk.length : chunk.length - end - 1;
      if (unread <= limit) return;
      this.onerror?.(new Error(`ReadBuffer exceeded maximum size of ${limit} bytes`));
      stdout.removeAllListeners("data").resume();
      this.close().catch(() => {});
    });
    readLines(stdout, (line) => {
      try {
        const message = JSON.parse(line);
        if (message?.jsonrpc !== "2.0") throw new Error(`this is no JSON-RPC message: ${line.slice(0, 200)}`);
        this.onmessage?.(message);
      } catch (error) {
        // A server may print anything.
        if (!(error instanceof SyntaxError)) this.onerror?.(error);
      }
    });
  }

  get stderr() {
    return this.#stderr ?? this.#process?.stderr ?? null;
  }

  get pid() {
    return this.#process?.pid ?? null;
  }

  /** Ends its input. Resolves when nothing is left of its tree; of a shared server, when this session has ended. */
  async close() {
    const server = this.#process;
    if (server === undefined) return;
    this.#process = undefined;
    const closed = new Promise((resolve) => server.once("close", resolve));
    server.stdin?.end();
    await closed;
  }

  async _dispose() {
    this.#process?.kill("SIGTERM");
    await this.close();
  }

  send(message) {
    return new Promise((resolve, reject) => {
      if (!this.#process?.stdin) throw new Error("Not connected");
      this.#process.stdin.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()));
    });
  }
}
