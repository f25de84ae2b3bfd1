// A memory bridge as hosts have it: JSON-RPC lines, requests of its own to the host, log lines on stdout in between. No dependency.

import { createInterface } from "node:readline";

const asked = new Map();
let cancelled = 0;
let lastQuestion = 0;

const write = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const ask = (method, params) =>
  new Promise((resolve) => {
    const id = `srv-${++lastQuestion}`;
    asked.set(id, resolve);
    write({ id, method, params });
  });

const methods = {
  who: () => ({ pid: process.pid, env: process.env.BRIDGE_NAME ?? null, args: process.argv.slice(2) }),
  echo: (params) => params,
  fail: ({ code, message, data }) => Promise.reject({ code, message, data }),
  die: ({ code = 1 } = {}) => process.exit(code),
  hang: () => new Promise(() => {}),
  slow: ({ ms }) => new Promise((resolve) => setTimeout(() => resolve("slow"), ms)),
  cancelled: () => cancelled,
  // What the host answers, or its error.
  ask: ({ method, params }) => ask(method, params),
  // Asks, and cancels at once.
  askAndCancel({ method }) {
    ask(method);
    write({ method: "$/cancelRequest", params: { id: `srv-${lastQuestion}` } });
    return null;
  },
  tell({ count }) {
    for (let index = 0; index < count; index++) write({ method: "events.notify", params: { index } });
    return count;
  },
  garbage() {
    process.stdout.write('bridge: up and running\n[1,2]\n"text"\n42\nnull\n{"broken":\n\n{}\n');
    process.stdout.write(Buffer.from([0xff, 0xfe, 0x0a]));
    return "after garbage";
  },
  big: ({ bytes }) => "x".repeat(bytes),
  // Written in pieces that split a character.
  split() {
    return { text: "ä€😀\u2028\u2029" };
  },
};

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params, result, error } = JSON.parse(line);
  if (method === undefined) {
    asked.get(id)?.(error ? { error } : { result });
    asked.delete(id);
  } else if (id === undefined) {
    if (method === "$/cancelRequest") cancelled += 1;
    if (method === "exit") process.exit(params?.code ?? 0);
  } else if (!Object.hasOwn(methods, method)) {
    write({ id, error: { code: -32601, message: `no method '${method}'` } });
  } else {
    try {
      write({ id, result: (await methods[method](params)) ?? null });
    } catch (error) {
      write({ id, error });
    }
  }
});
// A bridge that ignores the end of its input, as many do.
if (process.argv.includes("--stubborn")) {
  process.on("SIGTERM", () => {});
  setInterval(() => {}, 1000);
}
