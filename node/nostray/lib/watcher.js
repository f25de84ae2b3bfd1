// A process of nostray's that serves this one and ends with it: it waits for something, and says on its stdout what happens.
import { spawn } from "node:child_process";
import { readEvents } from "./lines.js";
import { findProgram } from "./program.js";

/**
 * Starts it. `onEvent` gets each object that it prints. `ended` resolves with its exit code and what it said on stderr.
 * Its stdin is open until `end` is called. It keeps the event loop alive until `unref` is called.
 */
export function startWatcher(args, onEvent) {
  // In a session of its own: Ctrl-C on a terminal is for this process, which may go on.
  const process = spawn(findProgram(), args, { detached: true, stdio: ["pipe", "pipe", "pipe"] });
  const ended = new Promise((resolve) => {
    const stderr = [];
    process.on("error", (error) => resolve({ code: null, stderr: error.message }));
    process.on("close", (code) => resolve({ code, stderr: Buffer.concat(stderr).toString().trim() }));
    process.stderr?.on("data", (chunk) => stderr.push(chunk));
    process.stdin?.on("error", () => {}); // it has ended
    if (process.stdout) readEvents(process.stdout, onEvent);
  });
  const each = (what) => {
    for (const handle of [process, ...(process.stdio ?? [])]) handle[what]();
  };
  return {
    ended,
    unref: () => each("unref"),
    write: (line) => process.stdin?.write(`${line}\n`),
    // From here on its end is near, and may be waited for.
    end() {
      each("ref");
      process.stdin?.end();
    },
    kill() {
      each("ref");
      process.kill();
    },
  };
}
