// What a further holder of a shared child costs: prints MiB in this host and in nostray, as JSON. `holders.mjs SERVER COUNT`

import { Lease } from "nostray";
import { memoryOf, memoryOfNostray } from "./memory.mjs";

const [server, count] = [process.argv[2], Number(process.argv[3])];
const open = async (leases) => {
  for (let index = 0; index < leases; index++) {
    const lease = new Lease("node", [server], { protocol: "jsonrpc" });
    await lease.call("who");
    held.push(lease);
  }
  global.gc();
  return [memoryOf(process.pid), memoryOfNostray(process.env.XDG_RUNTIME_DIR)];
};
const held = [];
// Only with the first ones does the host compile and allocate what all of them use.
const before = await open(count);
const after = await open(count);
console.log(JSON.stringify(after.map((now, which) => (now - before[which]) / count)));
await Promise.all(held.map((lease) => lease.close()));
