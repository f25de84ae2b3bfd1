// Eight threads open, close, call and kill at random: no call hangs, no two children live at once, and nothing is left.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { host, nothingIsLeft, running, server } from "./support/scene.mjs";

const THREADS = 8;
const ROUNDS = process.env.NOSTRAY_LONG === "1" ? 8000 : 1000;

test(`${ROUNDS} rounds of open, close, call and kill with ${THREADS} threads`, { timeout: 600_000 }, async (t) => {
  const seed = Number(process.env.NOSTRAY_SEED ?? Date.now() % 1_000_000);
  t.diagnostic(`NOSTRAY_SEED=${seed} repeats it`);
  const threads = Array.from({ length: THREADS }, (_, index) => {
    const workerData = { seed: seed + index, rounds: ROUNDS / THREADS, bridge: server("bridge") };
    return new Worker(host("storm"), { workerData, env: process.env });
  });
  let isOver = false;
  const counts = Promise.all(threads.map((thread) => once(thread, "message"))).finally(() => (isOver = true));
  counts.catch(() => {});
  let most = 0;
  while (!isOver) {
    most = Math.max(most, running("bridge").length);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const total = { answered: 0, died: 0, killed: 0, opened: 0 };
  for (const [count] of await counts) for (const name of Object.keys(total)) total[name] += count[name];
  t.diagnostic(JSON.stringify(total));
  assert.equal(most, 1, "never two at once");
  assert(total.answered > 0 && total.killed > 0 && total.opened > 0);
  await nothingIsLeft();
});
