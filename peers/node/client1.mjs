// The TypeScript SDK 1.x as client; on the tour if it is run: client1.mjs SERVER ARGUMENTS...

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

import { CAPABILITIES, isRun, oneAtATime, PATIENT, PERSON, take } from './tour.mjs';

/** Starts a server and connects this person to it. */
export async function connect([command, ...args], person = PERSON, capabilities = CAPABILITIES) {
  const heard = [];
  const client = new Client({ name: 'tour-typescript1', version: '1.0.0' }, { capabilities });
  const hear = ({ method, params }) => {
    const { _meta, ...said } = params ?? {};
    heard.push([method, said]);
  };
  client.fallbackNotificationHandler = async (notification) => hear(notification);
  const { sample, elicited, roots } = person;
  if (capabilities.sampling) {
    client.setRequestHandler(types.CreateMessageRequestSchema, (request) => (hear(request), sample));
  }
  if (capabilities.elicitation) {
    client.setRequestHandler(types.ElicitRequestSchema, (request) => (hear(request), elicited));
  }
  if (capabilities.roots) {
    client.setRequestHandler(types.ListRootsRequestSchema, (request) => (hear(request), { roots }));
  }
  // The SDK passes on a few variables only; the tests find processes by one of the others.
  const transport = new StdioClientTransport({ command, args, env: process.env });
  await client.connect(transport);
  oneAtATime(transport);

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
      return client.callTool({ name, arguments: args }, undefined, { ...PATIENT, onprogress });
    },
    cancel: async (name, args, after) => {
      const control = new AbortController();
      const options = { ...PATIENT, signal: control.signal, onprogress: () => control.abort('the tour') };
      try {
        return await client.callTool({ name, arguments: args }, undefined, options);
      } finally {
        await after();
      }
    },
    read: (uri) => client.readResource({ uri }),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    complete: (ref, argument) => client.complete({ ref, argument }),
    setLevel: (level) => client.setLoggingLevel(level),
    subscribe: (uri) => client.subscribeResource({ uri }),
    unsubscribe: (uri) => client.unsubscribeResource({ uri }),
  };
  const about = {
    server: client.getServerVersion().name,
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions() ?? null,
  };
  return { peer, about, close: () => client.close() };
}

if (isRun(import.meta.url)) {
  const { peer, about, close } = await connect(process.argv.slice(2));
  await take(peer, about);
  await close();
}
