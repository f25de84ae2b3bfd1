// The TypeScript SDK 2.x as client; on the tour if it is run: client2.mjs MODE SERVER ARGUMENTS..., where MODE is `auto` or
// `legacy`.

import { Client, LOG_LEVEL_META_KEY } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { CAPABILITIES, isRun, oneAtATime, PATIENT, PERSON, take } from './tour.mjs';

/** Starts a server and connects this person to it. */
export async function connect([mode, command, ...args], person = PERSON, capabilities = CAPABILITIES) {
  const heard = [];
  const client = new Client(
    { name: 'tour-typescript2', version: '1.0.0' },
    { capabilities, versionNegotiation: { mode } },
  );
  const hear = ({ method, params }) => {
    const { _meta, ...said } = params ?? {};
    heard.push([method, said]);
  };
  client.fallbackNotificationHandler = async (notification) => hear(notification);
  const { sample, elicited, roots } = person;
  if (capabilities.sampling) client.setRequestHandler('sampling/createMessage', (request) => (hear(request), sample));
  if (capabilities.elicitation) client.setRequestHandler('elicitation/create', (request) => (hear(request), elicited));
  if (capabilities.roots) client.setRequestHandler('roots/list', (request) => (hear(request), { roots }));
  // The SDK passes on a few variables only; the tests find processes by one of the others.
  const transport = new StdioClientTransport({ command, args, env: process.env });
  await client.connect(transport);
  oneAtATime(transport);
  const modern = client.getProtocolEra() === 'modern';
  const subscriptions = new Map();
  let level;

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
      // In the newer protocol each request says how much it wants to be told.
      const _meta = modern && level !== undefined ? { [LOG_LEVEL_META_KEY]: level } : undefined;
      return client.callTool({ name, arguments: args, ...(_meta && { _meta }) }, { ...PATIENT, onprogress });
    },
    cancel: async (name, args, after) => {
      const control = new AbortController();
      const options = { ...PATIENT, signal: control.signal, onprogress: () => control.abort('the tour') };
      try {
        return await client.callTool({ name, arguments: args }, options);
      } finally {
        await after();
      }
    },
    read: (uri) => client.readResource({ uri }),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    complete: (ref, argument) => client.complete({ ref, argument }),
    setLevel: async (wanted) => {
      level = wanted;
      if (!modern) await client.setLoggingLevel(wanted);
    },
    subscribe: async (uri) => {
      if (!modern) return void (await client.subscribeResource({ uri }));
      const listening = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
      subscriptions.set(uri, listening);
      listening.closed.then((why) => heard.push(['subscription closed', why]));
      return listening.honoredFilter;
    },
    unsubscribe: async (uri) => {
      if (!modern) return void (await client.unsubscribeResource({ uri }));
      await subscriptions.get(uri).close();
    },
  };
  const about = {
    era: client.getProtocolEra(),
    version: client.getNegotiatedProtocolVersion(),
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
