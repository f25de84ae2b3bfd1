import type { Time } from "./arguments.js";

export interface SlotOptions {
  /** What to do if the slot is taken: wait for it, fail, or ask its holder to hand over (`wait`). */
  ifTaken?: "wait" | "fail" | "replace";
  /** Waits no longer than this. */
  timeout?: Time;
  /** Called when another program asks for the slot: finish, then release it. Without it, this process gets SIGTERM. */
  onAsked?: (text: string, slot: Slot) => unknown;
  /** Is not asked to hand over before `ready` is called. */
  unready?: boolean;
  signal?: AbortSignal;
}

/** A name that at most one live holder has. It is released by `release` and with this process, however that ends. */
export declare class Slot implements AsyncDisposable {
  private constructor();
  /**
   * Resolves when the slot is held. A held slot does not keep the event loop alive.
   *
   * @throws {SlotTakenError} if it was not to be had.
   */
  static hold(name: string, options?: SlotOptions): Promise<Slot>;
  readonly name: string;
  /** Resolves with true after `release`, with false if the slot was lost. */
  readonly released: Promise<boolean>;
  /** With `unready`: this program has started. */
  ready(): void;
  release(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
