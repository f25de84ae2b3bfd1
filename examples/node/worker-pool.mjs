// A pool of workers: each session of a chat has a worker process of its own, which its clients talk to in lines over a socket.
//
//     node worker-pool.mjs SOCKET [IDLE]
//
// A client's first line is {"session": KEY}. What follows goes to the worker of that session, and what the worker says comes back.
// A worker ends when its last client disconnects, when it has been idle for IDLE, and with this process, however that ends.

import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Session } from "nostray";

const [path, idleTimeout = "10m"] = process.argv.slice(2);
const WORKER = fileURLToPath(new URL("worker.mjs", import.meta.url));

const pool = new Map(); // session -> { worker, clients }

function join(key, client) {
  if (!pool.has(key)) pool.set(key, start(key));
  const { worker, clients } = pool.get(key);
  clients.add(client);
  client.on("close", () => {
    clients.delete(client);
    if (clients.size === 0) worker.stdin.end(); // its tree ends, with its graces
  });
  return worker;
}

function start(key) {
  const worker = new Session(key).spawn(process.execPath, [WORKER, key], {
    stdio: ["pipe", "pipe", "inherit"],
    nostray: { idleTimeout, eofGrace: "1s", termGrace: "1s" },
  });
  const entry = { worker, clients: new Set() };
  const tell = (line) => {
    for (const client of entry.clients) client.write(`${line}\n`);
  };
  createInterface({ input: worker.stdout }).on("line", tell);
  worker.stdin.on("error", () => {}); // it has ended; `ended` says why
  worker.on("error", (error) => console.error(`worker of ${key}: ${error.message}`));
  worker.ended.then(({ reason }) => {
    if (pool.get(key) === entry) pool.delete(key);
    tell(JSON.stringify({ ended: reason }));
    for (const client of entry.clients) client.end();
  });
  return entry;
}

const server = createServer((client) => {
  let worker;
  client.on("error", () => {}); // a client that is gone
  createInterface({ input: client }).on("line", (line) => {
    if (worker === undefined) worker = join(JSON.parse(line).session, client);
    else worker.stdin.write(`${line}\n`);
  });
});
server.listen(path, () => console.log("listening"));
