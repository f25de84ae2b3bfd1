// JSON-RPC in both directions, without I/O: what is called, asked and answered. It is given lines, and gives messages to `write`.
import { CallError, ChildDiedError } from "./errors.js";
import { Feed } from "./feed.js";
import { limited } from "./limits.js";
import { parseObject } from "./lines.js";

const METHOD_NOT_FOUND = -32601;
const INTERNAL_ERROR = -32603;

/** What a request handler returns to let the next handler answer. */
export const DECLINED = Symbol("declined");

// How a request is cancelled, and what is answered without a handler.
const PROTOCOLS = {
  mcp: {
    cancelMethod: "notifications/cancelled",
    cancelParams: (requestId, reason) => ({ requestId, reason }),
    cancelled: (params) => params?.requestId,
    answers: { ping: {} },
  },
  jsonrpc: {
    cancelMethod: "$/cancelRequest",
    cancelParams: (id) => ({ id }),
    cancelled: (params) => params?.id,
    answers: {},
  },
};

export class Rpc {
  #write;
  #protocol;
  #lastId = 0;
  #calls = new Map(); // id -> { resolve, reject, sent }, not answered yet
  #incoming = new Map(); // id -> AbortController, of requests of the child that are not answered yet
  #held = []; // messages that wait for the handshake; null when there is none to wait for
  #requestHandlers = new Map(); // method -> handlers
  #notificationHandlers = new Set();
  #errorHandlers = new Set();
  #feeds = new Set();
  #end; // why it is closed
  #endOfCalls; // what calls in flight were rejected with then

  constructor(protocol, write) {
    this.#protocol = PROTOCOLS[protocol];
    if (this.#protocol === undefined) throw new TypeError(`the protocol is 'mcp' or 'jsonrpc', not '${protocol}'`);
    this.#write = write;
  }

  // To the child

  /** Sends what was held back, and holds nothing back from here on. */
  open() {
    const held = this.#held;
    this.#held = null;
    for (const send of held) send();
  }

  get isOpen() {
    return this.#held === null;
  }

  #send(send, now) {
    if (now || this.#held === null) send();
    else this.#held.push(send);
  }

  /** `now`: it is part of the handshake, for which the others wait. */
  call(method, params, { signal, timeout } = {}, now = false) {
    return new Promise((resolve, reject) => {
      if (this.#end !== undefined) throw this.#end;
      signal?.throwIfAborted();
      const id = ++this.#lastId;
      const settle = (settled) => (value) => {
        this.#calls.delete(id);
        forget();
        settled(value);
      };
      const call = { resolve: settle(resolve), reject: settle(reject), sent: false };
      const forget = limited({ signal, timeout }, `'${method}' was not answered`, (error) => {
        call.reject(error);
        if (call.sent) this.#cancel(id, error);
      });
      this.#calls.set(id, call);
      this.#send(() => {
        if (!this.#calls.has(id)) return; // given up while it waited
        call.sent = true;
        this.#write({ jsonrpc: "2.0", id, method, params });
      }, now);
    });
  }

  #cancel(id, error) {
    const { cancelMethod, cancelParams } = this.#protocol;
    this.#write({ jsonrpc: "2.0", method: cancelMethod, params: cancelParams(id, String(error?.message ?? error)) });
  }

  /** Resolves when the pipe has taken it. */
  notify(method, params, now = false) {
    return new Promise((resolve, reject) => {
      if (this.#end !== undefined) throw this.#end;
      const done = (error) => (error ? reject(this.#end ?? error) : resolve());
      this.#send((closed) => (closed ? reject(closed) : this.#write({ jsonrpc: "2.0", method, params }, done)), now);
    });
  }

  // From the child

  onLine(line) {
    if (this.#end !== undefined) return;
    const message = parseObject(line);
    if (message === undefined) return; // what is no message is in `nostray log ID --output`
    if (typeof message.method !== "string") this.#onAnswer(message);
    else if (message.id === undefined) this.#onNotification(message);
    else this.#onRequest(message);
  }

  #onAnswer({ id, result, error }) {
    const call = this.#calls.get(id);
    if (call === undefined) return; // it was given up
    if (error === undefined || error === null) return call.resolve(result);
    const { code, message, data } = error;
    const Kind = data?.nostray?.cause === undefined ? CallError : ChildDiedError;
    call.reject(new Kind(message, { code, data }));
  }

  #onNotification({ method, params }) {
    if (method === this.#protocol.cancelMethod) this.#incoming.get(this.#protocol.cancelled(params))?.abort();
    for (const handler of [...this.#notificationHandlers]) {
      if (this.#end !== undefined) return; // the handler before this one has closed the lease
      if (handler.method === undefined || handler.method === method) this.run(() => handler.handle(params, method));
    }
  }

  async #onRequest({ id, method, params }) {
    const control = new AbortController();
    this.#incoming.set(id, control);
    const answer = await this.#answer(method, params, control.signal);
    this.#incoming.delete(id);
    // A request that was cancelled gets no answer.
    if (this.#end === undefined && !control.signal.aborted) this.#write({ jsonrpc: "2.0", id, ...answer });
  }

  async #answer(method, params, signal) {
    try {
      for (const handler of [...(this.#requestHandlers.get(method) ?? [])]) {
        const result = await handler(params, { method, signal });
        if (result !== DECLINED) return { result: result ?? null };
        if (this.#end !== undefined) break;
      }
      if (Object.hasOwn(this.#protocol.answers, method)) return { result: this.#protocol.answers[method] };
      return { error: { code: METHOD_NOT_FOUND, message: `no handler answers '${method}'` } };
    } catch (error) {
      const { code, data } = error instanceof CallError ? error : { code: INTERNAL_ERROR };
      return { error: { code, message: String(error?.message ?? error), data } };
    }
  }

  // Handlers. Each of these gives a function that takes the handler away again.

  onNotification(method, handler) {
    return added(this.#notificationHandlers, typeof method === "function" ? { handle: method } : { method, handle: handler });
  }

  onRequest(method, handler) {
    if (!this.#requestHandlers.has(method)) this.#requestHandlers.set(method, new Set());
    return added(this.#requestHandlers.get(method), (...args) => handler(...args));
  }

  onError(handler) {
    return added(this.#errorHandlers, (error) => handler(error));
  }

  notifications({ method, limit = 1024 } = {}) {
    const feed = new Feed({
      limit,
      onReturn: () => {
        forget();
        this.#feeds.delete(feed);
      },
    });
    const forget = this.onNotification((params, name) => {
      if (method === undefined || method === name) feed.push({ method: name, params });
    });
    if (this.#end === undefined) this.#feeds.add(feed);
    else feed.end();
    return feed;
  }

  /** Calls a handler of the host's. What it throws ends neither the reader nor the host. */
  async run(handler) {
    try {
      await handler();
    } catch (error) {
      if (this.#end !== undefined && error === this.#endOfCalls) return; // the handler waited for a call when the lease was closed
      if (this.#errorHandlers.size === 0) process.emitWarning(error instanceof Error ? error : String(error));
      for (const onError of [...this.#errorHandlers]) onError(error);
    }
  }

  // The end

  /** Why it is closed, or undefined. */
  get end() {
    return this.#end;
  }

  /** Calls in flight are rejected, requests of the child are cancelled, and no handler is called any more. */
  close(error, ofCalls = error) {
    if (this.#end !== undefined) return;
    this.#end = error;
    this.#endOfCalls = ofCalls;
    for (const { reject } of [...this.#calls.values()]) reject(ofCalls);
    for (const control of this.#incoming.values()) control.abort(error);
    for (const feed of this.#feeds) feed.end();
    for (const send of this.#held?.splice(0) ?? []) send(error);
    this.#requestHandlers.clear();
    this.#notificationHandlers.clear();
  }
}

/** Puts something into a set, and gives the function that takes it out. */
export function added(set, entry) {
  set.add(entry);
  return () => {
    set.delete(entry);
  };
}
