/** Which children. */
export interface Selection {
  /** Ids, keys, slots, sessions or names. */
  which?: string | string[];
  session?: string;
  labels?: Record<string, string>;
}

/** A child on record. `raw` has all that `nostray ps --json` says of it. */
export interface RegisteredChild {
  id: string;
  name: string;
  /** `starting`, `ready`, `stopping`, `orphaned`, `unproved`, `frozen`; of a supervised child also `asleep`, `backing-off`, `tripped`. */
  state: string;
  command: string[];
  cwd: string;
  session: string | null;
  labels: Record<string, string>;
  slot: string | null;
  /** What makes sessions share it. */
  key: string | null;
  /** How many hold it. */
  holders: number;
  pid: number | null;
  generation: number | null;
  processes: number;
  /** Bytes, of the whole tree. */
  memory: number | null;
  started: Date;
  raw: Record<string, any>;
}

/** What a sweep did with one record. */
export interface Swept {
  id: string;
  command: string;
  /** `active`, `asked`, `clean`, `survivors`, `unproved`, `frozen`, `unreadable`, `elsewhere`. */
  outcome: string;
  left: number;
  survivors: Array<{ pid: number; command: string; evidence: string }>;
  candidates: Array<{ pid: number; command: string; evidence: string }>;
  raw: Record<string, any>;
}

/** An entry of the journal. */
export interface JournalEntry {
  id: string;
  /** `started`, `ready`, `stopping`, `exited`, `empty` ... */
  event: string;
  time: Date;
  raw: Record<string, any>;
}

export declare const registry: {
  /** The children of this user, by this program and all others. */
  list(which?: Selection): Promise<RegisteredChild[]>;
  /** Ends children with their graces, or at once, and waits. `stopped` is false if there was none, or something did not end. */
  stop(
    which: string | string[] | (Selection & { all?: boolean }),
    options?: { now?: boolean },
  ): Promise<{ stopped: boolean; text: string }>;
  /** Ends what is left of children whose guards were all killed, and nothing else. */
  sweep(options?: { dryRun?: boolean }): Promise<Swept[]>;
  /** What happens to children from now on. Ends when the signal is aborted, or the loop is left. */
  watch(options?: { which?: string; session?: string; signal?: AbortSignal }): AsyncIterableIterator<JournalEntry>;
};
