// A worker: answers each line with its session, its process and the line.

import { createInterface } from "node:readline";
import { dieWithParent } from "nostray";

const [session] = process.argv.slice(2);
// Under the pool, nostray ends it anyway. This is for a worker that another program starts.
dieWithParent();
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify({ session, pid: process.pid, line }));
}
