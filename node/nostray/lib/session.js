// All that belongs to one conversation: children and leases that bear its key, and end with it.
import { asyncDispose } from "./dispose.js";
import { Lease } from "./lease.js";
import { registry } from "./registry.js";
import { spawn } from "./spawn.js";

export class Session {
  #isClosed = false;
  #leases = new Set();

  constructor(key) {
    if (typeof key !== "string" || key === "") throw new TypeError("the key of a session must be a string with a character at least");
    this.key = key;
  }

  spawn(command, args, options) {
    if (!Array.isArray(args)) [args, options] = [[], options ?? args];
    this.#check();
    return spawn(command, args, { ...options, nostray: { ...options?.nostray, session: this.key } });
  }

  lease(command, args, options) {
    if (!Array.isArray(args)) [args, options] = [[], options ?? args];
    this.#check();
    const lease = new Lease(command, args, { ...options, session: this.key });
    this.#leases.add(lease);
    lease.closed.then(() => this.#leases.delete(lease));
    return lease;
  }

  #check() {
    if (this.#isClosed) throw new Error(`the session '${this.key}' is closed`);
  }

  /** Ends all children with this key, those of other processes, too. Its leases are released; a shared child goes on for other sessions. */
  async close(options) {
    this.#isClosed = true;
    await Promise.all([...this.#leases].map((lease) => lease.close()));
    return registry.stop({ session: this.key }, options);
  }

  async [asyncDispose]() {
    await this.close();
  }
}
