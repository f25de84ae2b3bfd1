// An async iterator that is fed from outside. It begins to collect when it is made, not when it is first read. It holds at most `limit`
// values: a reader that is too slow loses the oldest ones instead of all memory.

export class Feed {
  #values = [];
  #waiting = [];
  #limit;
  #over = false;
  #onReturn;
  /** How many values were lost. */
  dropped = 0;

  constructor({ limit = Infinity, onReturn } = {}) {
    this.#limit = limit;
    this.#onReturn = onReturn;
  }

  push(value) {
    if (this.#over) return;
    const next = this.#waiting.shift();
    if (next !== undefined) return next.resolve({ value, done: false });
    this.#values.push(value);
    if (this.#values.length > this.#limit) {
      this.#values.shift();
      this.dropped += 1;
    }
  }

  /** No value follows. What was collected is still read. */
  end(error) {
    if (this.#over) return;
    this.#over = true;
    for (const { resolve, reject } of this.#waiting.splice(0)) error ? reject(error) : resolve({ value: undefined, done: true });
  }

  next() {
    if (this.#values.length > 0) return Promise.resolve({ value: this.#values.shift(), done: false });
    if (this.#over) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  return(value) {
    this.#values = [];
    this.end();
    this.#onReturn?.();
    return Promise.resolve({ value, done: true });
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}
