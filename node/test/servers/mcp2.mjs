// An MCP server with the TypeScript SDK 2.x, for both eras of the protocol.

import { Server } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { TOOLS, use } from "./tools.mjs";

serveStdio(() => {
  const server = new Server({ name: "mcp2", version: "1.0.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler("tools/list", () => ({ tools: TOOLS }));
  server.setRequestHandler("tools/call", ({ params }, context) =>
    use(params, { signal: context.mcpReq.signal, roots: async () => (await server.listRoots()).roots }),
  );
  return server;
});
