// What a type checker must accept, and what it must not. Nothing here runs.

import type { ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { Transport as Transport1 } from "@modelcontextprotocol/sdk/shared/transport.js";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import type { StdioServerParameters as Parameters1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Client as Client2, type Transport as Transport2 } from "@modelcontextprotocol/client";
import type { StdioServerParameters as Parameters2 } from "@modelcontextprotocol/client/stdio";
import { CallError, ChildDiedError, command, dieWithParent, Lease, registry, Session, Slot, spawn, watchParent } from "nostray";
import { StdioClientTransport } from "nostray/mcp";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function is<Type>(_value: Type): void {}
function same<A, B>(_proof: Equal<A, B>): void {}

// spawn
const piped = spawn("cat", ["-"], { nostray: { session: "chat-17", termGrace: "30s", labels: { task: "42" } } });
same<typeof piped.stdin, Writable>(true);
same<typeof piped.stdout, Readable>(true);
const mixed = spawn("cat", { stdio: ["ignore", "pipe", "inherit"] });
same<typeof mixed.stdin, null>(true);
same<typeof mixed.stdout, Readable>(true);
same<typeof mixed.stderr, null>(true);
same<ReturnType<typeof spawn<{ stdio: "ignore" }>>["stdout"], null>(true);
const asNode: ChildProcess = spawn("true", [], { stdio: "inherit" });
is<ChildProcess>(asNode);
piped.on("exit", (code, signal) => [code, signal]);
piped.ended.then(({ code, signal, reason, text }) => is<string>(`${code} ${signal} ${reason} ${text}`));
is<number | null>(piped.childPid);
// @ts-expect-error: an option that does not exist
spawn("cat", [], { nostray: { sessoin: "x" } });

// Lease
async function leases() {
  await using lease = new Lease("node", ["bridge.mjs"], { key: "memory", protocol: "jsonrpc", routeBy: ["params.sessionId"] });
  const answer = await lease.call<{ pid: number }>("who", {}, { timeout: 1000, signal: AbortSignal.timeout(5) });
  is<number>(answer.pid);
  const remove = lease.onRequest("host.complete", async (params, { signal }) => (signal.aborted ? Lease.declined : params));
  remove();
  lease.onNotification("log", (params) => params.text);
  lease.onNotification((_params, method) => is<string>(method));
  for await (const { method } of lease.notifications({ limit: 10 })) is<string>(method);
  lease.onGeneration((generation) => is<number>(generation));
  is<number>(await lease.ready());
  is<string | undefined>(lease.server?.serverInfo.name);
  try {
    await lease.call("x");
  } catch (error) {
    if (error instanceof ChildDiedError) is<string[]>(error.stderr);
    else if (error instanceof CallError) is<number>(error.code);
  }
  // @ts-expect-error: there is no such protocol
  new Lease("node", [], { protocol: "lsp" });
}

// Others
async function others() {
  await using slot = await Slot.hold("memory", { ifTaken: "replace", onAsked: (_text, held) => held.release() });
  slot.ready();
  // @ts-expect-error: a slot is held, not made
  new Slot();
  const watch = watchParent(() => process.exit(), { signal: AbortSignal.timeout(1) });
  is<boolean>(await watch.ended);
  is<number | null>((await dieWithParent().watching).pid);
  for (const child of await registry.list({ session: "chat-17" })) is<string>(child.id);
  for await (const entry of registry.watch({ signal: AbortSignal.timeout(1) })) is<Date>(entry.time);
  await using session = new Session("chat-17");
  session.spawn("cat").stdin.end();
  is<string[]>(command("npx", ["-y", "some-server"], { share: true, key: "a" }).args);
  is<string>(command("some-server", [], { slot: "memory", respawn: true }).command);
  // @ts-expect-error: a shared child has no slot
  command("some-server", [], { share: true, slot: "memory" });
}

// The transport fits both SDKs, and takes what theirs take.
async function transports(one: Parameters1, two: Parameters2) {
  const transport = new StdioClientTransport({ command: "some-server", share: true, nostray: { key: "memory" } });
  is<Transport1>(transport);
  is<Transport2>(transport);
  await new Client1({ name: "a", version: "1" }).connect(new StdioClientTransport(one));
  await new Client2({ name: "a", version: "1" }).connect(new StdioClientTransport(two));
}

is<Function[]>([leases, others, transports]);
