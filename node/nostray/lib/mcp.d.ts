import type { IOType } from "node:child_process";
import type { Stream } from "node:stream";
import type { ContainedOptions, ShareOptions } from "./arguments.js";

interface ServerParameters {
  command: string;
  args?: string[];
  /** In addition to `getDefaultEnvironment()`. */
  env?: Record<string, string>;
  /** As in node:child_process (`inherit`). What a shared server says there is in `nostray log ID --output`. */
  stderr?: IOType | Stream | number;
  cwd?: string;
  /** A longer message is an error, and closes the transport (10 MiB). */
  maxBufferSize?: number;
}

/** The parameters of the SDK's class of this name, and nostray's. */
export type StdioServerParameters =
  | (ServerParameters & { share?: false; nostray?: ContainedOptions })
  | (ServerParameters & {
      /** All sessions with the same key use one server. */
      share: true;
      nostray?: ShareOptions;
    });

export declare const DEFAULT_INHERITED_ENV_VARS: string[];
/** The variables that a server gets beside those that are given to it. */
export declare function getDefaultEnvironment(): Record<string, string>;

/** The drop-in for the class of this name of the TypeScript SDK, 1.x and 2.x. */
export declare class StdioClientTransport {
  constructor(server: StdioServerParameters);
  onclose?: () => void;
  onerror?: (error: Error) => void;
  // The SDKs have types of their own for a message, which this package does not import.
  onmessage?: (message: any) => void;
  start(): Promise<void>;
  send(message: object): Promise<void>;
  /** Resolves when nothing is left of the server's tree; of a shared server, when this session has ended. */
  close(): Promise<void>;
  /** Also before the start, with `stderr: "pipe"`. */
  get stderr(): Stream | null;
  /** The process that Node started, which is the front. */
  get pid(): number | null;
}
