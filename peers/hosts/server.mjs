// An MCP server that any host accepts. It writes down whether nostray started it.
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

if (process.env.STARTED) appendFileSync(process.env.STARTED, process.env.NOSTRAY_PEN ? 'nostray\n' : 'host\n');
const tool = { name: 'echo', description: 'says it again', inputSchema: { type: 'object', properties: {} } };
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const results = {
    initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'echo', version: '1' } },
    'tools/list': { tools: [tool] },
    ping: {},
  };
  const answer = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'no such method' } };
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...answer }) + '\n');
});
