// The children on record, of this program and of all others of this user: list, stop, sweep, and what happens to them.
import { spawn } from "node:child_process";
import { ask } from "./ask.js";
import { NostrayError } from "./errors.js";
import { Feed } from "./feed.js";
import { limited } from "./limits.js";
import { readEvents } from "./lines.js";
import { findProgram } from "./program.js";

const NONE = 1;

function selection({ which = [], session, labels = {} } = {}) {
  const words = [which].flat().map(String);
  const flags = Object.entries(labels).map(([name, value]) => `--label=${name}=${value}`);
  if (session !== undefined) flags.push(`--session=${session}`);
  return words.length > 0 ? [...flags, "--", ...words] : flags;
}

function toChild(raw) {
  const { id, name, state, command, cwd, session, labels, slot, shared, generation, processes, memory, started } = raw;
  return {
    id,
    name,
    state,
    command,
    cwd,
    session: session ?? null,
    labels: labels ?? {},
    slot: slot ?? null,
    key: shared?.key ?? null,
    holders: shared?.leases?.length ?? (raw.host ? 1 : 0),
    pid: raw.child?.pid ?? null,
    generation: generation ?? null,
    processes,
    memory,
    started: new Date(started),
    raw,
  };
}

export const registry = {
  async list(which) {
    const { stdout } = await ask(["ps", "--json", ...selection(which)], { okay: [0, NONE] });
    return JSON.parse(stdout).pens.map(toChild);
  },

  async stop(which, { now = false } = {}) {
    const chosen = typeof which === "string" || Array.isArray(which) ? { which } : which;
    const flags = [...(now ? ["--now"] : []), ...(chosen?.all ? ["--all"] : [])];
    const { code, stdout, stderr } = await ask(["stop", ...flags, ...selection(chosen)], { okay: [0, NONE] });
    return { stopped: code === 0, text: (stdout + stderr).trim() };
  },

  async sweep({ dryRun = false } = {}) {
    const { stdout } = await ask(["sweep", "--json", ...(dryRun ? ["--dry-run"] : [])], { okay: [0, NONE] });
    return JSON.parse(stdout).swept.map((raw) => ({
      id: raw.id,
      command: raw.command,
      outcome: raw.outcome,
      left: raw.left,
      survivors: raw.survivors ?? [],
      candidates: raw.candidates ?? [],
      raw,
    }));
  },

  watch({ which, session, signal } = {}) {
    signal?.throwIfAborted();
    // What happens from here on; what has happened is in `nostray log`. A moment: the program starts later than this.
    const words = ["log", "--follow", "--json", `--since=${new Date().toISOString()}`, ...(session === undefined ? [] : [`--session=${session}`])];
    const log = spawn(findProgram(), [...words, ...(which === undefined ? [] : ["--", which])], { stdio: ["ignore", "pipe", "pipe"] });
    const stop = () => log.kill();
    const forget = limited({ signal }, "", stop);
    const feed = new Feed({ limit: 4096, onReturn: stop });
    const stderr = [];
    log.stderr.on("data", (chunk) => stderr.push(chunk));
    readEvents(log.stdout, (raw) => feed.push({ id: raw.id, event: raw.event, time: new Date(raw.time), raw }));
    log.on("error", (error) => feed.end(error));
    log.on("close", (code) => {
      forget();
      feed.end(code > 0 ? new NostrayError(Buffer.concat(stderr).toString().trim()) : undefined);
    });
    return feed;
  },
};
