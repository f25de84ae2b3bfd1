// What the MCP servers of the tests offer, whichever SDK they are made of.

import { spawn } from "node:child_process";

const tool = (name) => ({ name, description: name, inputSchema: { type: "object" } });
export const TOOLS = ["who", "echo", "die", "hang", "cancelled", "roots", "env", "helper"].map(tool);

const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
let cancelled = 0;

export async function use({ name, arguments: args = {} }, { signal, roots }) {
  switch (name) {
    case "who":
      return text(process.pid);
    case "echo":
      return text(args.text);
    case "die":
      return process.exit(3);
    case "hang":
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          cancelled += 1;
          reject(new Error("cancelled"));
        });
      });
    case "cancelled":
      return text(cancelled);
    case "roots":
      return text((await roots()).map(({ uri }) => uri));
    case "env":
      return text(JSON.stringify(process.env));
    case "helper":
      // A grandchild that would outlive its parent: in a session of its own, with no pipe.
      return text(spawn("sleep", ["600"], { stdio: "ignore", detached: true }).pid);
    default:
      throw new Error(`there is no tool '${name}'`);
  }
}

// A server that ignores the end of its input, as many do.
if (process.argv.includes("--stubborn")) {
  process.on("SIGTERM", () => {});
  setInterval(() => {}, 1000);
}
