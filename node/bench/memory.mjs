// The proportional share of memory (PSS), in MiB.

import { readdirSync, readFileSync } from "node:fs";

export function memoryOf(pid) {
  return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))[1]) / 1024;
}

/** Of all processes of nostray that have this folder in their environment. */
export function memoryOfNostray(folder) {
  let sum = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    try {
      if (!readFileSync(`/proc/${pid}/environ`, "utf8").includes(folder)) continue;
      if (/nostray/.test(readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[0])) sum += memoryOf(pid);
    } catch {} // it has ended
  }
  return sum;
}
