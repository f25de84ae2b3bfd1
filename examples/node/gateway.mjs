// A gateway that reads its MCP servers from a file, and reads it again with SIGHUP.
//
//     node gateway.mjs FILE        {"servers": {"NAME": {"command": "npx", "args": ["-y", "some-server"]}}}
//
// For each load it says which tools each server has. A server that is in the old and in the new file keeps its process: its new lease is
// there before the old one is closed. A server that is not in the new file is gone when its last lease is.

import { readFileSync } from "node:fs";
import { Lease } from "nostray";

const [file] = process.argv.slice(2);
let current = new Map();
let loading = Promise.resolve();

async function load() {
  const { servers } = JSON.parse(readFileSync(file, "utf8"));
  const next = new Map();
  for (const [name, { command, args = [], env }] of Object.entries(servers)) {
    next.set(name, new Lease(command, args, { env: { ...process.env, ...env }, clientInfo: { name: "gateway", version: "1" } }));
  }
  const report = {};
  await Promise.all(
    [...next].map(async ([name, lease]) => {
      try {
        const { tools } = await lease.call("tools/list", {}, { timeout: 60_000 });
        report[name] = tools.map((tool) => tool.name);
      } catch (error) {
        // One server that does not start must not keep the others away.
        report[name] = error.message;
      }
    }),
  );
  const old = current;
  current = next;
  await Promise.all([...old.values()].map((lease) => lease.close()));
  console.log(JSON.stringify(report));
}

const reload = () => (loading = loading.then(load).catch((error) => console.error(`not loaded: ${error.message}`)));
process.on("SIGHUP", reload);
await reload();
