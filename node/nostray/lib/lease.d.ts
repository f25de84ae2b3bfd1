import type { IOType } from "node:child_process";
import type { Stream } from "node:stream";
import type { ShareOptions } from "./arguments.js";

/** How long something may take. */
export interface Limits {
  signal?: AbortSignal;
  /** Milliseconds. */
  timeout?: number;
}

export interface LeaseOptions extends ShareOptions {
  /** Whether the lease itself shakes hands with an MCP server. Default: with `protocol: "mcp"`, which is the default itself. */
  handshake?: boolean;
  /** What the lease says of itself in the handshake. */
  clientInfo?: { name: string; version: string };
  capabilities?: Record<string, unknown>;
  protocolVersion?: string;
  env?: NodeJS.ProcessEnv;
  cwd?: string | URL;
  /** Where nostray says what went wrong (`inherit`). What the child says there is in `nostray log ID --output`. */
  stderr?: IOType | Stream | number;
  /** Closes the lease. */
  signal?: AbortSignal;
}

/** What a server answers to `initialize`. */
export interface ServerInfo {
  protocolVersion: string;
  capabilities: Record<string, unknown>;
  serverInfo: { name: string; version: string };
  instructions?: string;
  [more: string]: unknown;
}

export interface Notification<Params = any> {
  method: string;
  params: Params;
}

/** How a lease ended. */
export interface LeaseEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
  text: string;
}

/** Takes a handler away. */
export type Remove = () => void;

/**
 * A hold on a child that all holders of its key share, in this process and in others. The child starts with the first lease and ends with
 * the last one. A lease ends with `close`, with the worker thread that made it, or with this process, however that ends.
 *
 * It keeps the event loop alive until it is closed, or `unref` is called.
 */
export declare class Lease implements AsyncDisposable {
  constructor(command: string, options?: LeaseOptions);
  constructor(command: string, args: readonly string[], options?: LeaseOptions);

  /** What a request handler returns to let the next handler answer. */
  static readonly declined: unique symbol;

  /**
   * Calls a method of the child. While there is no child, the call waits for the next one. When the signal is aborted or the time is over,
   * the child is told to cancel it.
   *
   * @throws {ChildDiedError} if the child ended during the call: it was not made again.
   * @throws {CallError} if the child answered with an error.
   */
  call<Result = any>(method: string, params?: object, limits?: Limits): Promise<Result>;
  /** Resolves when the message is on its way. */
  notify(method: string, params?: object): Promise<void>;

  /** Calls the handler for each notification, or for those of one method. */
  onNotification(handler: (params: any, method: string) => unknown): Remove;
  onNotification(method: string, handler: (params: any, method: string) => unknown): Remove;
  /** The notifications from now on. A reader that is `limit` (1024) behind loses the oldest. It ends when the lease is closed. */
  notifications(options?: { method?: string; limit?: number }): AsyncIterableIterator<Notification> & { readonly dropped: number };
  /**
   * Answers a request of the child. Several handlers are asked in order; a handler that returns `Lease.declined` lets the next answer. The
   * signal is aborted when the child cancels the request, or the lease is closed.
   */
  onRequest(method: string, handler: (params: any, context: { method: string; signal: AbortSignal }) => unknown): Remove;
  /** Gets what a handler of notifications or generations throws. Without one it is a warning of the process. */
  onError(handler: (error: unknown) => void): Remove;
  /** Calls the hook once for each child: for the one that is there, and for each that follows. */
  onGeneration(hook: (generation: number) => unknown): Remove;

  /** Resolves with the generation when a child is there and the handshake is done. */
  ready(limits?: Limits): Promise<number>;
  /** A new child for all holders, as soon as nothing is in flight. Resolves with its generation. */
  restart(limits?: Limits): Promise<number>;

  /** The number of the living child; null while there is none. */
  readonly generation: number | null;
  /** What the server answered to `initialize`. */
  readonly server: ServerInfo | undefined;
  /** The id of the child's record, by which `registry` and `nostray ps` know it. */
  readonly id: string | null;
  /** The process that is this lease. */
  readonly pid: number | undefined;
  /** Why it has a child of its own instead of a shared one, if it has. */
  readonly alone: string | null;

  readonly isClosed: boolean;
  /** Resolves when the lease has ended, for any reason. It never rejects. */
  readonly closed: Promise<LeaseEnd>;
  /** Releases the child. Calls in flight are rejected, and no handler is called any more. May be called again. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;

  ref(): this;
  unref(): this;
}
