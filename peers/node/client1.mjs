// The tour with the TypeScript SDK 1.x as client: client1.mjs SERVER ARGUMENTS...

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

import { ELICITED, ROOTS, SAMPLE, take } from './tour.mjs';

const [command, ...args] = process.argv.slice(2);
const heard = [];
const client = new Client(
  { name: 'tour-typescript1', version: '1.0.0' },
  { capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } } },
);
const hear = ({ method, params }) => {
  const { _meta, ...said } = params ?? {};
  heard.push([method, said]);
};
client.fallbackNotificationHandler = async (notification) => hear(notification);
client.setRequestHandler(types.CreateMessageRequestSchema, (request) => (hear(request), SAMPLE));
client.setRequestHandler(types.ElicitRequestSchema, (request) => (hear(request), ELICITED));
client.setRequestHandler(types.ListRootsRequestSchema, (request) => (hear(request), { roots: ROOTS }));
// The SDK passes on a few variables only; the tests find processes by one of the others.
await client.connect(new StdioClientTransport({ command, args, env: process.env }));

const peer = {
  heard,
  list: (what) =>
    ({
      tools: () => client.listTools(),
      resources: () => client.listResources(),
      templates: () => client.listResourceTemplates(),
      prompts: () => client.listPrompts(),
    })[what](),
  call: (name, args, progress) => {
    const onprogress = progress
      ? ({ progress, total, message }) => heard.push(['progress', progress, total ?? null, message ?? null])
      : undefined;
    return client.callTool({ name, arguments: args }, undefined, { onprogress });
  },
  cancel: async (name, args) => {
    const control = new AbortController();
    setTimeout(() => control.abort('the tour'), 200);
    return client.callTool({ name, arguments: args }, undefined, { signal: control.signal });
  },
  read: (uri) => client.readResource({ uri }),
  prompt: (name, args) => client.getPrompt({ name, arguments: args }),
  complete: (ref, argument) => client.complete({ ref, argument }),
  setLevel: (level) => client.setLoggingLevel(level),
  subscribe: (uri) => client.subscribeResource({ uri }),
  unsubscribe: (uri) => client.unsubscribeResource({ uri }),
};
await take(peer, {
  server: client.getServerVersion().name,
  capabilities: client.getServerCapabilities(),
  instructions: client.getInstructions() ?? null,
});
await client.close();
