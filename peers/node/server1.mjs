// The server of the tour with the TypeScript SDK 1.x.

import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

import * as offer from './offer.mjs';

const server = new Server(
  { name: 'tour-typescript1', version: '1.0.0' },
  { capabilities: offer.CAPABILITIES, instructions: 'Take the tour.' },
);
const subscribed = new Set();
let cancelled = 0;

server.setRequestHandler(types.ListToolsRequestSchema, () => ({ tools: offer.TOOLS }));
server.setRequestHandler(types.CallToolRequestSchema, async ({ params }, extra) => {
  const args = params.arguments ?? {};
  const progressToken = params._meta?.progressToken;
  const tell = async (said) => {
    if (progressToken === undefined) return;
    await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, ...said } });
  };
  switch (params.name) {
    case 'add':
      return offer.text(args.a + args.b);
    case 'echo':
      return offer.text(args.text);
    case 'work':
      for (let step = 1; step <= args.steps; step++) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        await tell({ progress: step, total: args.steps, message: `step ${step}` });
      }
      // An SDK may drop a progress that arrives together with the answer.
      await new Promise((resolve) => setTimeout(resolve, 50));
      return offer.text(`worked ${args.steps}`);
    case 'wait':
      return offer.wait(args.seconds, extra.signal, () => tell({ progress: 0 }), () => cancelled++);
    case 'cancelled':
      return offer.text(cancelled);
    case 'sample': {
      const { content } = await server.createMessage(offer.sampling(args.prompt));
      return offer.text(`sampled: ${content.text}`);
    }
    case 'ask': {
      const { action, content } = await server.elicitInput(offer.question(args.question));
      return offer.text(`${action}: ${content?.name}`);
    }
    case 'roots':
      return offer.text((await server.listRoots()).roots.map(({ uri }) => uri).join(' '));
    case 'log':
      // It keeps to the level that the client has set.
      for (const level of offer.LOGGED) {
        await server.sendLoggingMessage({ level, logger: 'tour', data: offer.logged(level, args) });
      }
      return offer.text('logged');
    case 'touch':
      if (subscribed.has(args.uri)) await server.sendResourceUpdated({ uri: args.uri });
      return offer.text('touched');
    case 'announce':
      await server.sendToolListChanged();
      return offer.text('announced');
    case 'die':
      process.exit(1);
    default:
      throw new types.McpError(types.ErrorCode.InvalidParams, `no tool '${params.name}'`);
  }
});
server.setRequestHandler(types.ListResourcesRequestSchema, () => ({ resources: offer.RESOURCES }));
server.setRequestHandler(types.ListResourceTemplatesRequestSchema, () => ({ resourceTemplates: offer.TEMPLATES }));
server.setRequestHandler(types.ReadResourceRequestSchema, ({ params: { uri } }) => {
  const found = offer.resource(uri);
  if (found === undefined) throw new types.McpError(-32002, `no resource '${uri}'`);
  return found;
});
server.setRequestHandler(types.SubscribeRequestSchema, ({ params }) => (subscribed.add(params.uri), {}));
server.setRequestHandler(types.UnsubscribeRequestSchema, ({ params }) => (subscribed.delete(params.uri), {}));
server.setRequestHandler(types.ListPromptsRequestSchema, () => ({ prompts: offer.PROMPTS }));
server.setRequestHandler(types.GetPromptRequestSchema, ({ params }) => offer.greeting(params.arguments));
server.setRequestHandler(types.CompleteRequestSchema, ({ params }) => offer.completion(params.argument.value));

await server.connect(new StdioServerTransport());
