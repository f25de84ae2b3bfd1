/** A call was answered with a JSON-RPC error. A request handler throws it to answer with one. */
export declare class CallError extends Error {
  name: string;
  readonly code: number;
  readonly data: unknown;
  constructor(message: string, options?: { code?: number; data?: unknown; cause?: unknown });
}

/** The child ended during a call, or there was no child to make it. No call is made twice by itself. */
export declare class ChildDiedError extends CallError {
  /** How the child ended, in words. */
  readonly reason: string | undefined;
  /** The last lines of its stderr, without secrets. */
  readonly stderr: string[];
}

/** The lease was closed, or its session has ended. */
export declare class LeaseClosedError extends Error {
  name: "LeaseClosedError";
}

/** The slot has another holder. */
export declare class SlotTakenError extends Error {
  name: "SlotTakenError";
  code: "NOSTRAY_SLOT_TAKEN";
}

/** The `nostray` program itself failed. */
export declare class NostrayError extends Error {
  name: "NostrayError";
  code: "NOSTRAY_FAILED";
}
