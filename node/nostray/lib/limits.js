// How long something may take: until a signal is aborted, or a time is over.

// What setTimeout can count to; it takes more for 1.
const LONGEST = 2 ** 31 - 1;

// One listener for each signal, whatever number of calls has it: Node warns of more than ten.
const waiting = new WeakMap(); // signal -> callbacks

function onAbort(signal, callback) {
  const callbacks = waiting.get(signal) ?? new Set();
  const all = () => {
    for (const one of [...callbacks]) one();
  };
  if (!waiting.has(signal)) {
    waiting.set(signal, callbacks);
    signal.addEventListener("abort", all, { once: true });
  }
  callbacks.add(callback);
  return () => callbacks.delete(callback);
}

/** Calls `onLimit` with the reason, unless the function that it returns is called before. */
export function limited({ signal, timeout }, what, onLimit) {
  const stop = (error) => {
    forget();
    onLimit(error);
  };
  const late = () => stop(new DOMException(`${what} within ${timeout} ms`, "TimeoutError"));
  const timer = timeout === undefined ? undefined : setTimeout(late, Math.min(timeout, LONGEST));
  const ignore = signal && onAbort(signal, () => stop(signal.reason));
  const forget = () => {
    clearTimeout(timer);
    ignore?.();
  };
  return forget;
}
