/** Milliseconds, or as on the command line: `"2s"`, `"10m"`. */
export type Time = number | string;

interface AnyOptions {
  /** Its session, by which `registry` and `nostray ps` find it. */
  session?: string;
  /** Something to find it by. */
  labels?: Record<string, string>;
  /** Time from the end of its input to SIGTERM (2s). */
  eofGrace?: Time;
  /** Time from SIGTERM to SIGKILL (5s). */
  termGrace?: Time;
  /** It ends with these processes, too. */
  dieWith?: number | number[];
  /** Puts the tree into a namespace of its own, so that the kernel itself ends it. */
  isolate?: "pid";
}

/** What a contained child can have. docs/run.md, docs/slots.md and docs/ready.md say more about each. */
export interface ContainedOptions extends AnyOptions {
  /** Ends it after so long without a byte and without processor time. */
  idleTimeout?: Time;
  /** A name that at most one live tree holds. */
  slot?: string;
  /** What to do if the slot is taken (`wait`). */
  ifTaken?: "wait" | "fail" | "replace";
  /** Waits no longer than this for the slot. */
  waitTimeout?: Time;
  maxHandovers?: string;
  /** Ready when a line on its stderr matches this regular expression. The syntax is Rust's. */
  readyLine?: string;
  /** Ready when a process of its tree listens there: `8080`, `"127.0.0.1:8080"`. */
  readyPort?: number | string;
  /** Ready when this file is there. */
  readyFile?: string;
  /** Ready when this command succeeds. */
  readyCmd?: string;
  /** Ready when it says so, as a service says so to systemd. */
  readyNotify?: boolean;
  /** Ends it if it is not ready by then. */
  readyTimeout?: Time;
}

/** What a child can have that stays: docs/supervised.md says more about each. */
export interface SupervisedOptions {
  /** Whether a child that crashes is started again. */
  respawn?: boolean;
  /** `"250ms..30s"` */
  backoff?: string;
  /** `"5/1m"` */
  maxFailures?: string;
  /** Ends it after so long without calls; the next call starts it. */
  hibernate?: Time;
  lazy?: boolean;
  /** `"500M"` */
  maxMemory?: string;
  maxAge?: Time;
  startTimeout?: Time;
  callTimeout?: Time;
  protocol?: "mcp" | "jsonrpc";
  /** What a new child is told again: `"session.open=session.close@params.sessionId"`. */
  replay?: string | string[];
  /** `"64M"` */
  maxLine?: string;
}

/** What a shared child can have. docs/share.md says more about each. */
export interface ShareOptions extends AnyOptions, SupervisedOptions {
  /** Who has the same key shares the child. Default: command, arguments, directory and environment. */
  key?: string;
  /** Of the environment, only these variables count. */
  shareEnv?: string | string[];
  /** The directory does not count. */
  anyDir?: boolean;
  /** How long it is kept after its last holder (0 for a lease). */
  linger?: Time;
  /** Where sharing is not possible, fail instead of having a child of its own. */
  requireShare?: boolean;
  /** Which holder gets a request of the child that may belong to several. */
  reverse?: "certain" | "newest";
  /** The members of a message that name its session, for `protocol: "jsonrpc"`. */
  routeBy?: string | string[];
}

/** A command line, for frameworks that take a command and its arguments: the child is contained, or shared with `share: true`. */
export declare function command(
  program: string,
  args: readonly string[] | undefined,
  options: ShareOptions & { share: true },
): { command: string; args: string[] };
export declare function command(
  program: string,
  args?: readonly string[],
  options?: ContainedOptions & SupervisedOptions & { share?: false },
): { command: string; args: string[] };
