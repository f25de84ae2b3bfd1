// A host that goes on after Ctrl-C: it says which bridge it holds, and whether it holds its slot, at the start and after each SIGINT.

import { Lease, Slot } from "nostray";

const bridge = new URL("../servers/bridge.mjs", import.meta.url).pathname;
const lease = new Lease("node", [bridge], { protocol: "jsonrpc", eofGrace: 300, termGrace: 300 });
let asked = false;
await Slot.hold("interrupted", { onAsked: () => (asked = true) });
const tell = async () => {
  const { pid } = await lease.call("who");
  console.log(JSON.stringify({ pid, generation: lease.generation, asked }));
};
process.on("SIGINT", tell);
await tell();
