export interface ParentWatch extends AsyncDisposable {
  /** The parent that is watched; null until it is. */
  readonly pid: number | null;
  /** Resolves when the parent is watched. */
  readonly watching: Promise<ParentWatch>;
  /** Resolves with true when the parent has ended, with false if the watch was stopped before. */
  readonly ended: Promise<boolean>;
  stop(): void;
}

/** Calls the callback when the parent of this process has ended. The watch does not keep the event loop alive. */
export declare function watchParent(callback: () => unknown, options?: { signal?: AbortSignal }): ParentWatch;
export declare function watchParent(options?: { signal?: AbortSignal }): ParentWatch;

/**
 * Ends this process when its parent has ended: by SIGTERM, and by SIGKILL 5 s later. This works also while the event loop hangs.
 */
export declare function dieWithParent(options?: { signal?: AbortSignal }): ParentWatch;
