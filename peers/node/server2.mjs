// The server of the tour with the TypeScript SDK 2.x. It serves either protocol, as the client's first line decides.

import { inputRequired, inputResponse, ProtocolError, ProtocolErrorCode, Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

import * as offer from './offer.mjs';

serveStdio(({ era }) => {
  const server = new Server(
    { name: 'tour-typescript2', version: '1.0.0' },
    { capabilities: offer.CAPABILITIES, instructions: 'Take the tour.' },
  );
  const subscribed = new Set();
  let cancelled = 0;

  // Asks the client for something: by a result in the newer protocol, which the SDK turns into a request in the older.
  const ask = (context, request, use) => {
    const answer = inputResponse(context.mcpReq.inputResponses, 'it');
    return answer.kind === 'missing' ? inputRequired({ inputRequests: { it: request } }) : offer.text(use(answer));
  };

  server.setRequestHandler('tools/list', () => ({ tools: offer.TOOLS }));
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    const args = params.arguments ?? {};
    const progressToken = context.mcpReq._meta?.progressToken;
    const tell = async (said) => {
      if (progressToken === undefined) return;
      await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...said } });
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
        return offer.wait(args.seconds, context.mcpReq.signal, () => tell({ progress: 0 }), () => cancelled++);
      case 'cancelled':
        return offer.text(cancelled);
      case 'sample': {
        const request = inputRequired.createMessage(offer.sampling(args.prompt));
        return ask(context, request, ({ result }) => `sampled: ${result.content.text}`);
      }
      case 'ask': {
        const request = inputRequired.elicit(offer.question(args.question));
        return ask(context, request, ({ action, content }) => `${action}: ${content?.name}`);
      }
      case 'roots':
        return ask(context, inputRequired.listRoots(), ({ roots }) => roots.map(({ uri }) => uri).join(' '));
      case 'log':
        // It keeps to the level that the client has set.
        for (const level of offer.LOGGED) await context.mcpReq.log(level, offer.logged(level, args), 'tour');
        return offer.text('logged');
      case 'touch':
        // In the newer protocol the SDK itself knows who listens.
        if (era === 'modern' || subscribed.has(args.uri)) await server.sendResourceUpdated({ uri: args.uri });
        return offer.text('touched');
      case 'announce':
        await server.sendToolListChanged();
        return offer.text('announced');
      case 'die':
        process.exit(1);
      default:
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, `no tool '${params.name}'`);
    }
  });
  server.setRequestHandler('resources/list', () => ({ resources: offer.RESOURCES }));
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: offer.TEMPLATES }));
  server.setRequestHandler('resources/read', ({ params: { uri } }) => {
    const found = offer.resource(uri);
    if (found === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `no resource '${uri}'`);
    return found;
  });
  server.setRequestHandler('resources/subscribe', ({ params }) => (subscribed.add(params.uri), {}));
  server.setRequestHandler('resources/unsubscribe', ({ params }) => (subscribed.delete(params.uri), {}));
  server.setRequestHandler('prompts/list', () => ({ prompts: offer.PROMPTS }));
  server.setRequestHandler('prompts/get', ({ params }) => offer.greeting(params.arguments));
  server.setRequestHandler('completion/complete', ({ params }) => offer.completion(params.argument.value));
  return server;
});
