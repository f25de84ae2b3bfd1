// A host that is a cluster: each of its three workers holds the same bridge, and says so.

import cluster from "node:cluster";
import { Lease } from "nostray";

if (cluster.isPrimary) {
  for (let index = 0; index < 3; index++) cluster.fork();
} else {
  const bridge = new URL("../servers/bridge.mjs", import.meta.url).pathname;
  const lease = new Lease("node", [bridge], { protocol: "jsonrpc", eofGrace: 300, termGrace: 300 });
  const { pid } = await lease.call("who");
  console.log(JSON.stringify({ worker: process.pid, bridge: pid }));
}
