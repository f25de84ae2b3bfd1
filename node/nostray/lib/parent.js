// For programs that are children themselves: to learn that the parent has ended. The parent is the process that is it now, by its
// identity; a number that is used again is another process. Another process waits, so nothing is polled, and with `dieWithParent` a program
// whose event loop hangs ends all the same.
import { asyncDispose } from "./dispose.js";
import { NostrayError } from "./errors.js";
import { limited } from "./limits.js";
import { startWatcher } from "./watcher.js";

class ParentWatch {
  #watcher;
  #isStopped = false;
  pid = null;

  constructor(words, signal) {
    signal?.throwIfAborted();
    const seen = new Promise((resolve) => {
      this.#watcher = startWatcher(["wait", "--json", "--parent-of", String(process.pid), ...words], ({ event, pid }) => {
        if (event !== "watching") return;
        this.pid = pid;
        this.#watcher.unref(); // it is no reason to stay
        resolve();
      });
    });
    const forget = limited({ signal }, "", () => this.stop());
    this.ended = this.#watcher.ended.then(({ code, stderr }) => {
      forget();
      if (code !== 0 && !this.#isStopped) throw new NostrayError(stderr || `nostray wait exited with code ${code}`);
      return !this.#isStopped;
    });
    this.watching = Promise.race([seen, this.ended]).then(() => this);
    // A caller may wait for one of them, or for neither.
    for (const promise of [this.ended, this.watching]) promise.catch(() => {});
  }

  stop() {
    this.#isStopped = true;
    this.#watcher.kill();
  }

  async [asyncDispose]() {
    this.stop();
    await this.ended;
  }
}

export function watchParent(callback, { signal } = {}) {
  if (typeof callback === "object") return watchParent(undefined, callback);
  const watch = new ParentWatch([], signal);
  if (callback) watch.ended.then((hasEnded) => hasEnded && callback(), (error) => process.emitWarning(error));
  return watch;
}

export function dieWithParent({ signal } = {}) {
  return new ParentWatch(["--end-caller"], signal);
}
