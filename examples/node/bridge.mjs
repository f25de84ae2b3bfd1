// A memory bridge, much simplified: JSON-RPC lines on stdin and stdout. It keeps turns, asks its host for summaries, and logs to stdout.

import { createInterface } from "node:readline";

const sessions = new Map();
const asked = new Map();
let lastQuestion = 0;

const write = (message) => console.log(JSON.stringify({ jsonrpc: "2.0", ...message }));
const ask = (method, params) =>
  new Promise((resolve) => {
    const id = `srv-${++lastQuestion}`;
    asked.set(id, resolve);
    write({ id, method, params });
  });

const methods = {
  "session.open": ({ sessionId }) => void sessions.set(sessionId, sessions.get(sessionId) ?? []),
  "session.close": ({ sessionId }) => void sessions.delete(sessionId),
  async "turn.store"({ sessionId, text }) {
    if (!sessions.has(sessionId)) throw new Error(`the session ${sessionId} is not open`);
    const summary = await ask("host.llm.complete", { sessionId, prompt: text });
    sessions.get(sessionId).push(summary.text);
    return { pid: process.pid, stored: sessions.get(sessionId).length, summary: summary.text };
  },
};

console.log("bridge: started"); // as bridges do
createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params, result, error } = JSON.parse(line);
  if (method === undefined) return asked.get(id)?.(result ?? { text: `no summary: ${error.message}` });
  try {
    write({ id, result: (await methods[method](params)) ?? null });
  } catch (error) {
    write({ id, error: { code: -32000, message: error.message } });
  }
});
