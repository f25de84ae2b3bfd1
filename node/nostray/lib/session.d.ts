import { Lease, type LeaseOptions } from "./lease.js";
import type { Child, SpawnOptions } from "./spawn.js";

/** All that belongs to one conversation: children and leases that bear its key, and end with it. */
export declare class Session implements AsyncDisposable {
  constructor(key: string);
  readonly key: string;
  spawn<const Options extends SpawnOptions = {}>(command: string, options?: Options): Child<Options>;
  spawn<const Options extends SpawnOptions = {}>(command: string, args: readonly string[], options?: Options): Child<Options>;
  lease(command: string, options?: LeaseOptions): Lease;
  lease(command: string, args: readonly string[], options?: LeaseOptions): Lease;
  /** Ends all children with this key, also those that other processes started. A shared child goes on for other sessions. */
  close(options?: { now?: boolean }): Promise<{ stopped: boolean; text: string }>;
  [Symbol.asyncDispose](): Promise<void>;
}
