// `StdioClientTransport` as drop-in for that of the TypeScript SDK: clients and servers of both majors, contained and shared.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { getDefaultEnvironment as environment1, StdioClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { Client as Client2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Transport2 } from "@modelcontextprotocol/client/stdio";
import { DEFAULT_INHERITED_ENV_VARS, getDefaultEnvironment, StdioClientTransport } from "nostray/mcp";
import { eventually, folder, isAlive, nothingIsLeft, processes, running, server } from "./support/scene.mjs";

const ROOT = { uri: "file:///somewhere", name: "somewhere" };
// The SDK's own transport passes a few variables on; these are how a test finds its processes.
const env = { XDG_RUNTIME_DIR: folder, XDG_STATE_HOME: folder };
const GRACES = { eofGrace: 300, termGrace: 300 };
const info = { name: "test", version: "1" };

const clients = {
  "1.x"() {
    const client = new Client1(info, { capabilities: { roots: {} } });
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [ROOT] }));
    return client;
  },
  "2.x"() {
    const client = new Client2(info, { capabilities: { roots: {} } });
    client.setRequestHandler("roots/list", () => ({ roots: [ROOT] }));
    return client;
  },
  // It asks first which protocol the server speaks, with a second process.
  "2.x in the newer protocol": () => new Client2(info, { versionNegotiation: { mode: "auto" } }),
};

const text = ({ content }) => content[0].text;
const use = async (client, name, args = {}, options) => text(await callTool(client, name, args, options));
const callTool = (client, name, args, options) =>
  client.callTool({ name, arguments: args }, ...(client instanceof Client1 ? [undefined, options] : [options]));

const WAYS = {
  contained: { nostray: GRACES },
  shared: { share: true, nostray: GRACES },
};

for (const [version, make] of Object.entries(clients)) {
  for (const name of ["mcp1", "mcp2"]) {
    for (const [way, params] of Object.entries(WAYS)) {
      test(`a client of ${version} uses the server ${name}, ${way}: tools, a cancel, and nothing is left of its tree`, async () => {
        const client = make();
        const transport = new StdioClientTransport({ command: "node", args: [server(name)], env, ...params });
        await client.connect(transport);
        const { tools } = await client.listTools();
        assert(tools.some((tool) => tool.name === "echo"));
        assert.equal(await use(client, "echo", { text: "ä\u2028€" }), "ä\u2028€");
        const helper = Number(await use(client, "helper"));
        assert(isAlive(helper));
        await assert.rejects(callTool(client, "hang", {}, { timeout: 100 }));
        await eventually("the cancel arrives", async () => (await use(client, "cancelled")) === "1");
        assert(transport.pid > 0);
        await client.close();
        if (way === "contained") assert(!isAlive(helper), "after close nothing is left");
        assert.equal(transport.pid, null);
        await nothingIsLeft();
      });
    }
  }
}

test("a server asks its client, contained and shared", async () => {
  for (const [version, name] of [["1.x", "mcp1"], ["2.x", "mcp2"], ["1.x", "mcp2"], ["2.x", "mcp1"]]) {
    for (const params of Object.values(WAYS)) {
      const client = clients[version]();
      await client.connect(new StdioClientTransport({ command: "node", args: [server(name)], env, ...params }));
      assert.equal(await use(client, "roots"), ROOT.uri);
      await client.close();
    }
  }
  await nothingIsLeft();
});

test("with `share`, three clients have one server, also clients that were never closed, and a crash goes unnoticed", async () => {
  const params = { command: "node", args: [server("mcp1")], env, share: true, nostray: GRACES };
  const many = [clients["1.x"](), clients["2.x"](), clients["1.x"]()];
  await Promise.all(many.map((client) => client.connect(new StdioClientTransport(params))));
  const pids = await Promise.all(many.map((client) => use(client, "who")));
  assert.deepEqual(new Set(pids), new Set([String(running("mcp1")[0])]));
  process.kill(Number(pids[0]), "SIGKILL");
  const after = await Promise.all(many.map((client) => use(client, "who")));
  assert.equal(new Set(after).size, 1);
  assert.notEqual(after[0], pids[0]);
  await Promise.all(many.map((client) => client.close()));
  await nothingIsLeft();
});

test("the environment of a server is the SDK's", async () => {
  assert.deepEqual(getDefaultEnvironment(), environment1());
  assert(DEFAULT_INHERITED_ENV_VARS.includes("PATH"));
  const seen = [];
  for (const Transport of [StdioClientTransport, Transport1]) {
    const client = clients["1.x"]();
    await client.connect(new Transport({ command: "node", args: [server("mcp1")], env: { ...env, GIVEN: "yes" } }));
    const variables = JSON.parse(await use(client, "env"));
    seen.push(Object.keys(variables).filter((name) => !name.startsWith("NOSTRAY")).sort());
    await client.close();
  }
  assert.deepEqual(seen[0], seen[1]);
  await nothingIsLeft();
});

test("a server that is not there rejects connect with the SDK's error", async () => {
  for (const make of [clients["1.x"], clients["2.x"]]) {
    const errors = [];
    for (const Transport of [StdioClientTransport, Transport1, Transport2]) {
      const client = make();
      const failed = await client.connect(new Transport({ command: "nostray-no-such-program", stderr: "ignore" })).catch((error) => error);
      errors.push([failed.code, failed.message, failed.path]);
    }
    assert.deepEqual(errors[0], errors[1]);
    assert.deepEqual(errors[0], errors[2]);
  }
  await nothingIsLeft();
});

test("a server that dies closes the client, and says so once", async () => {
  const client = clients["1.x"]();
  let closed = 0;
  client.onclose = () => closed++;
  await client.connect(new StdioClientTransport({ command: "node", args: [server("mcp1")], env, nostray: GRACES }));
  await assert.rejects(use(client, "die"), /Connection closed/);
  await eventually("it is closed", () => closed === 1);
  await client.close();
  assert.equal(closed, 1);
  await nothingIsLeft();
});

test("a stubborn server is gone when close resolves", async () => {
  const client = clients["2.x"]();
  await client.connect(new StdioClientTransport({ command: "node", args: [server("mcp2"), "--stubborn"], env, nostray: GRACES }));
  await client.close();
  assert.deepEqual(running("mcp2"), []);
  await nothingIsLeft();
});

test("stderr is there before the start with `pipe`", async () => {
  const transport = new StdioClientTransport({ command: "sh", args: ["-c", "echo early >&2; cat"], stderr: "pipe", env, nostray: GRACES });
  const heard = new Promise((resolve) => transport.stderr.once("data", resolve));
  await transport.start();
  assert.equal(String(await heard), "early\n");
  await assert.rejects(transport.start(), /already started/);
  await transport.close();
  await transport.close();
  await nothingIsLeft();
});

test("lines that are no messages are errors and end nothing; a line beyond maxBufferSize closes it", async () => {
  const script = `
    process.stdout.write('log line\\n[1]\\n{"jsonrpc":"1.0"}\\n{"jsonrpc":"2.0","method":"ok"}\\n');
    process.stdin.on("data", () => process.stdout.write("x".repeat(100_000)));
  `;
  const params = { command: "node", args: ["-e", script], env, maxBufferSize: 50_000, nostray: GRACES };
  for (const Transport of [StdioClientTransport, Transport1, Transport2]) {
    const transport = new Transport(params);
    const seen = { messages: [], errors: 0 };
    const closed = new Promise((resolve) => (transport.onclose = resolve));
    transport.onmessage = (message) => seen.messages.push(message);
    transport.onerror = () => seen.errors++;
    await transport.start();
    await eventually("the message", () => seen.messages.length === 1);
    const errors = Transport === Transport1 ? 3 : 2; // 2.x passes over what is no JSON
    assert.equal(seen.errors, errors);
    await transport.send({ jsonrpc: "2.0", method: "more" });
    await closed;
    assert.equal(seen.errors, errors + 1);
    await assert.rejects(transport.send({ jsonrpc: "2.0", method: "late" }), /Not connected/);
  }
  await nothingIsLeft();
});

test("an MCP client that is given up in the middle of its connect leaves nothing", async () => {
  for (const params of Object.values(WAYS)) {
    const client = clients["1.x"]();
    const control = new AbortController();
    const transport = new StdioClientTransport({ command: "node", args: [server("mcp1")], env, ...params });
    const connecting = client.connect(transport, { signal: control.signal }).catch((error) => error);
    await eventually("it has started", () => processes().length > 0);
    control.abort();
    assert((await connecting) instanceof Error);
    await nothingIsLeft();
  }
});
