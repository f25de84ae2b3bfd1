import type { ChildProcess, SpawnOptions as NodeOptions } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { ContainedOptions } from "./arguments.js";

/** The options of node:child_process, and nostray's. */
export interface SpawnOptions extends NodeOptions {
  nostray?: ContainedOptions;
}

/** How a child ended. */
export interface Exit {
  /** Its exit code; null if a signal ended it, or it was not started. */
  code: number | null;
  signal: NodeJS.Signals | null;
  /**
   * Why: `child-ended` if it ended by itself; what ended it, as in the journal: `stdin-closed`, `signal`, `stop-request`, `idle` ...;
   * `not-executed`, `refused` (its slot), `failed` or `not-started` if there was no child; `keepers-killed` if no guard was left to tell.
   */
  reason: string;
  /** The same in words, if there is more to say. */
  text: string | null;
}

/** What a contained child has beyond a ChildProcess, whose process is the front. */
export interface Contained {
  /** The id of its record, by which `registry` and `nostray ps` know it; null until it has started. */
  readonly id: string | null;
  /** The process of the child itself; null until it has started, and with `isolate: "pid"`. `pid` is the front's. */
  readonly childPid: number | null;
  /** Resolves when nothing is left of its tree. It never rejects. */
  readonly ended: Promise<Exit>;
}

type At<Options, Index extends number> = Options extends { stdio: infer Stdio }
  ? Stdio extends readonly unknown[]
    ? Stdio[Index]
    : Stdio
  : "pipe";
type Stream<Entry, Kind> = Entry extends "pipe" | "overlapped" | null | undefined
  ? Kind
  : Entry extends string | number
    ? null
    : Kind | null;

/** The streams are there or null, as `stdio` says. */
export type Child<Options = {}> = Omit<ChildProcess, "stdin" | "stdout" | "stderr"> &
  Contained & {
    stdin: Stream<At<Options, 0>, Writable>;
    stdout: Stream<At<Options, 1>, Readable>;
    stderr: Stream<At<Options, 2>, Readable>;
  };

/**
 * `spawn` of node:child_process, with the child's whole tree tied to this process: however this process ends, nothing of it is left.
 *
 * `spawn` is emitted when the child has become its program, `exit` when nothing is left of its tree, with the child's own code and signal.
 * `ready` is emitted as the `ready` options say, `waiting` with a text if the child waits for its slot. `kill("SIGKILL")` ends the tree at
 * once; other signals go to the child.
 */
export declare function spawn<const Options extends SpawnOptions = {}>(command: string, options?: Options): Child<Options>;
export declare function spawn<const Options extends SpawnOptions = {}>(
  command: string,
  args: readonly string[],
  options?: Options,
): Child<Options>;
