// A place of its own for the tests of one file: records, broker and slots that no other test sees, and a way to see in /proc what is left.
// Each file runs in a process of its own, so the variables are set here, once, before anything is started.

import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

export const folder = mkdtempSync(join(tmpdir(), "nostray-node-"));
Object.assign(process.env, { XDG_RUNTIME_DIR: folder, XDG_STATE_HOME: folder, XDG_CACHE_HOME: folder, NOSTRAY_SCENE: folder });

export const server = (name) => join(import.meta.dirname, "..", "servers", `${name}.mjs`);
export const host = (name) => join(import.meta.dirname, "..", "hosts", `${name}.mjs`);

/** Short, so that a test of a stubborn tree does not last for seconds. */
export const GRACES = { eofGrace: 300, termGrace: 300 };

function read(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return ""; // it has ended, or belongs to another user
  }
}

/** All processes that were started in this scene, nostray's own included: { pid, words }. A zombie is none: it has no environment. */
export function processes() {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids
    .filter((pid) => read(pid, "environ").includes(folder))
    .map((pid) => ({ pid: Number(pid), words: read(pid, "cmdline").split("\0").slice(0, -1) }));
}

/** The pids of the processes that run this script of ours, like "bridge". */
export function running(script) {
  return processes()
    .filter(({ words }) => words.some((word) => basename(word) === `${script}.mjs`) && !words.includes("--"))
    .map(({ pid }) => pid);
}

export const isAlive = (pid) => read(pid, "stat") !== "" && !/\) Z /.test(read(pid, "stat"));
export const parentOf = (pid) => Number(read(pid, "stat").replace(/^.*\) . /s, "").split(" ")[0]);
export const programOf = (pid) => readlinkSync(`/proc/${pid}/exe`);

/** Waits until this gives a value that counts as true, and returns it. */
export async function eventually(what, check, deadline = 20_000) {
  const end = Date.now() + deadline;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what}: not within ${deadline} ms. Running: ${JSON.stringify(processes(), null, 1)}`);
    await pause(10);
  }
}

/** Waits until no process of this scene is left, the broker included. */
export const nothingIsLeft = (deadline) => eventually("nothing is left", () => processes().length === 0, deadline);

after(async () => {
  // Also after a test that has failed.
  for (const { pid } of processes()) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {}
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
});
