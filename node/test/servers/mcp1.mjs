// An MCP server with the TypeScript SDK 1.x.

import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { TOOLS, use } from "./tools.mjs";

const server = new Server({ name: "mcp1", version: "1.0.0" }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: TOOLS }));
server.setRequestHandler(CallToolRequestSchema, ({ params }, { signal }) =>
  use(params, { signal, roots: async () => (await server.listRoots()).roots }),
);
await server.connect(new StdioServerTransport());
