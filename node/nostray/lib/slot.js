// A name that at most one live holder has, for programs that must be alone with a database, a port or a profile. `nostray slot hold` holds
// it, until this process closes its stdin or ends.
import { toTime } from "./arguments.js";
import { asyncDispose } from "./dispose.js";
import { NostrayError, SlotTakenError } from "./errors.js";
import { limited } from "./limits.js";
import { startWatcher } from "./watcher.js";

const TAKEN = 75;

export class Slot {
  #holder;
  #isReleased = false;

  static hold(name, { ifTaken, timeout, onAsked, unready = false, signal } = {}) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const words = ["slot", "hold", "--json"];
      if (ifTaken !== undefined) words.push(`--if-taken=${ifTaken}`);
      if (timeout !== undefined) words.push(`--wait-timeout=${toTime(timeout)}`);
      if (unready) words.push("--unready");
      const slot = new Slot();
      const forget = limited({ signal }, "", (reason) => {
        reject(reason);
        slot.release();
      });
      slot.name = name;
      slot.#holder = startWatcher([...words, "--", name], ({ event, text }) => {
        if (event === "held") {
          forget();
          slot.#holder.unref(); // it is no reason to stay
          resolve(slot);
        } else if (event === "asked" && !slot.#isReleased) {
          // A tree that holds a slot gets SIGTERM, too.
          onAsked ? onAsked(text, slot) : process.kill(process.pid, "SIGTERM");
        }
      });
      slot.released = slot.#holder.ended.then(({ code, stderr }) => {
        forget();
        const Kind = code === TAKEN ? SlotTakenError : NostrayError;
        reject(new Kind(stderr || `nostray slot hold exited with code ${code}`));
        return slot.#isReleased;
      });
    });
  }

  ready() {
    this.#holder.write("ready");
  }

  async release() {
    this.#isReleased = true;
    this.#holder.end();
    await this.released;
  }

  [asyncDispose]() {
    return this.release();
  }
}
