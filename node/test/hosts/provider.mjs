// A host as they are: providers that are initialised twice, forgotten with each reload, and never shut down. It says which child they have;
// with the line "abandon" it makes new ones.

import { createInterface } from "node:readline";
import { Lease } from "nostray";

class Provider {
  async initialize() {
    this.lease = new Lease("node", [new URL("../servers/mcp1.mjs", import.meta.url).pathname], { eofGrace: 300, termGrace: 300 });
    const { content } = await this.lease.call("tools/call", { name: "who", arguments: {} });
    return Number(content[0].text);
  }
}

let made = 0;
async function load() {
  const providers = [new Provider(), new Provider(), new Provider()];
  const pids = await Promise.all(providers.map((provider) => provider.initialize()));
  made += providers.length;
  // Initialising again must not make a second child.
  pids.push(await providers[0].initialize());
  if (new Set(pids).size !== 1) throw new Error(`several children: ${pids}`);
  return { pid: pids[0], leases: made };
}

console.log(JSON.stringify(await load()));
createInterface({ input: process.stdin }).on("line", async () => {
  global.gc();
  console.log(JSON.stringify(await load()));
});
