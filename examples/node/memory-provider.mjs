// A provider of memory. Plugins make one for each conversation, make it again with each reload, and seldom shut one down: all of them
// have one bridge, whichever process they are in.
//
//     node memory-provider.mjs

import { fileURLToPath } from "node:url";
import { ChildDiedError, Lease } from "nostray";

const BRIDGE = fileURLToPath(new URL("bridge.mjs", import.meta.url));

export class MemoryProvider {
  #lease;

  constructor(sessionId, complete) {
    this.sessionId = sessionId;
    this.#lease = new Lease(process.execPath, [BRIDGE], {
      key: "memory-bridge",
      protocol: "jsonrpc",
      session: sessionId,
      // A request of the bridge goes to the provider of the session that it names.
      routeBy: "params.sessionId",
      // A new bridge is told which sessions are open.
      replay: "session.open=session.close@params.sessionId",
      eofGrace: "1s",
      termGrace: "1s",
    });
    this.#lease.onRequest("host.llm.complete", async ({ sessionId, prompt }) => {
      if (sessionId !== this.sessionId) return Lease.declined;
      return { text: await complete(prompt) };
    });
    this.#lease.call("session.open", { sessionId }).catch(() => {}); // a call that follows says the same
  }

  /** Stores a turn. If the bridge died with it, the turn is stored once more: it has an order, so twice is better than never. */
  async store(text) {
    const store = () => this.#lease.call("turn.store", { sessionId: this.sessionId, text }, { timeout: 30_000 });
    try {
      return await store();
    } catch (error) {
      if (!(error instanceof ChildDiedError)) throw error;
      return store();
    }
  }

  close() {
    return this.#lease.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const complete = async (prompt) => prompt.toUpperCase();
  const providers = ["chat-1", "chat-2", "chat-1"].map((session) => new MemoryProvider(session, complete));
  for (const provider of providers) console.log(provider.sessionId, await provider.store("we met"));
  const { pid } = await providers[0].store("and spoke");
  process.kill(pid, "SIGKILL");
  console.log("after a crash", await providers[1].store("and went on"));
  await Promise.all(providers.map((provider) => provider.close()));
}
