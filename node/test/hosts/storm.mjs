// A thread of the storm: opens, closes, calls and kills at random, and says how often a call was answered and how often its child died.

import { parentPort, workerData } from "node:worker_threads";
import { ChildDiedError, Lease } from "nostray";

const { seed, rounds, bridge } = workerData;
const options = { protocol: "jsonrpc", key: "storm", eofGrace: 300, termGrace: 300, backoff: "1ms..5ms", maxFailures: "1000/1m" };

// A generator of its own, so that a run can be repeated. (mulberry32)
let state = seed;
function random(below) {
  state = (state + 0x6d2b79f5) | 0;
  let word = Math.imul(state ^ (state >>> 15), 1 | state);
  word = (word + Math.imul(word ^ (word >>> 7), 61 | word)) ^ word;
  return ((word ^ (word >>> 14)) >>> 0) % below;
}

const leases = [];
const count = { answered: 0, died: 0, killed: 0, opened: 0 };
let pid;

async function call(lease) {
  try {
    pid = (await lease.call("who", {}, { timeout: 60_000 })).pid;
    count.answered += 1;
  } catch (error) {
    if (!(error instanceof ChildDiedError)) throw error;
    count.died += 1;
  }
}

for (let round = 0; round < rounds; round++) {
  const lease = leases[random(leases.length || 1)];
  const act = random(10);
  if (lease === undefined || (act < 3 && leases.length < 3)) {
    leases.push(new Lease("node", [bridge], options));
    count.opened += 1;
  } else if (act < 5) {
    leases.splice(leases.indexOf(lease), 1);
    // Half of them with a call in flight.
    const calling = random(2) === 0 ? lease.call("who").catch(() => {}) : undefined;
    await lease.close();
    await calling;
  } else if (act < 9) {
    await call(lease);
  } else if (pid !== undefined) {
    try {
      process.kill(pid, "SIGKILL");
      count.killed += 1;
    } catch {} // it has ended
    pid = undefined;
  }
}
await Promise.all(leases.map((lease) => call(lease)));
await Promise.all(leases.map((lease) => lease.close()));
parentPort.postMessage(count);
