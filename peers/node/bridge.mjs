// A bridge from Streamable HTTP to a server on stdio, because the conformance suite speaks HTTP only:
//   bridge.mjs COMMAND ARGUMENTS...
// Each HTTP session has a process of its own. What passes is not looked into, beyond what HTTP needs to know: to which
// request an answer or a question belongs. Says its URL on stdout, and leaves when its stdin ends.

import { randomUUID } from 'node:crypto';
import http from 'node:http';

import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

const [command, ...args] = process.argv.slice(2);
// How long each request waits if nothing else is under way: long enough for a server to fall asleep.
const pause = Number(process.env.BRIDGE_PAUSE ?? '0') * 1000;
const sessions = new Map();

async function open(allowedHosts) {
  const child = new StdioClientTransport({ command, args, env: process.env });
  // What the client asked and is not answered: what a server says meanwhile belongs to the only one of them.
  const asked = new Set();
  const session = {
    http: new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.set(id, session),
      enableDnsRebindingProtection: true,
      allowedHosts,
    }),
    close: () => child.close(),
  };
  let order = Promise.resolve();
  session.http.onmessage = (message) => {
    order = order.then(async () => {
      const isRequest = message.method !== undefined && message.id !== undefined;
      if (isRequest && asked.size === 0 && message.method !== 'initialize') {
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
      if (isRequest) asked.add(message.id);
      await child.send(message);
    });
  };
  child.onmessage = (message) => {
    const isAnswer = message.method === undefined;
    const [only] = asked.size === 1 ? asked : [];
    if (isAnswer) asked.delete(message.id);
    session.http.send(message, isAnswer ? undefined : { relatedRequestId: only }).catch(() => {});
  };
  await session.http.start();
  await child.start();
  return session;
}

const server = http.createServer(async (request, response) => {
  const id = request.headers['mcp-session-id'];
  const { port } = server.address();
  const session = sessions.get(id) ?? (await open([`localhost:${port}`, `127.0.0.1:${port}`]));
  if (request.method === 'GET') {
    // The client's standing stream: with it, the client has gone.
    response.on('close', () => {
      sessions.delete(id);
      session.close();
    });
  }
  await session.http.handleRequest(request, response);
  // What was refused has opened nothing.
  if (session.http.sessionId === undefined) await session.close();
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`http://127.0.0.1:${server.address().port}/mcp\n`));
process.stdin.resume().on('end', async () => {
  await Promise.all([...sessions.values()].map((session) => session.close()));
  process.exit(0);
});
