// What goes wrong, as types.

/** A call was answered with a JSON-RPC error. */
export class CallError extends Error {
  name = "CallError";

  constructor(message, { code = -32603, data, ...options } = {}) {
    super(message, options);
    this.code = code;
    this.data = data;
  }
}

/** The child ended during a call, or there is no child to make it. The front says so in the error that it answers with. */
export class ChildDiedError extends CallError {
  name = "ChildDiedError";

  /** How the child ended, in words. */
  get reason() {
    return this.data?.nostray?.cause;
  }

  /** The last lines of its stderr, without secrets. */
  get stderr() {
    return this.data?.nostray?.stderr ?? [];
  }
}

/** The lease was closed, or its session has ended. */
export class LeaseClosedError extends Error {
  name = "LeaseClosedError";
}

/** The slot has another holder. */
export class SlotTakenError extends Error {
  name = "SlotTakenError";
  code = "NOSTRAY_SLOT_TAKEN";
}

/** The `nostray` program itself failed. */
export class NostrayError extends Error {
  name = "NostrayError";
  code = "NOSTRAY_FAILED";
}
