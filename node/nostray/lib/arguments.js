// The options of this package as the words of a command line. One table: an option that it does not know is an error, not a silent loss.
import { findProgram } from "./program.js";

/** A number is milliseconds, as everywhere in Node; a string is as on the command line. */
export function toTime(value) {
  if (typeof value !== "number") return String(value);
  if (!(value >= 0 && value <= Number.MAX_SAFE_INTEGER)) throw new TypeError(`${value} is no time`);
  return `${Math.round(value)}ms`;
}

// How a value becomes words. An array gives the option once for each of its elements.
const words = (spell) => (flag, value) => {
  if (value === true) return [flag];
  return value === false ? [] : [value].flat().map((one) => `${flag}=${spell(one)}`);
};
const text = words(String);
const time = words(toTime);
const list = (flag, value) => [`${flag}=${[value].flat().join(",")}`];
const labels = (_, value) => Object.entries(value).map(([name, of]) => `--label=${name}=${of}`);
const yesOrNo = (flag, value) => [value ? flag : flag.replace("--", "--no-")];

const ANY = { session: text, labels, eofGrace: time, termGrace: time, dieWith: text, isolate: text };
const SUPERVISED = {
  respawn: text,
  backoff: text,
  maxFailures: text,
  hibernate: time,
  lazy: text,
  maxMemory: text,
  maxAge: time,
  startTimeout: time,
  callTimeout: time,
  protocol: text,
  replay: text,
  maxLine: text,
};

/** What a child of `spawn` can have. */
export const CONTAINED = {
  ...ANY,
  idleTimeout: time,
  slot: text,
  ifTaken: text,
  waitTimeout: time,
  maxHandovers: text,
  readyLine: text,
  readyPort: text,
  readyFile: text,
  readyCmd: text,
  readyNotify: text,
  readyTimeout: time,
};
/** What `nostray run` can have. */
export const RUN = { ...CONTAINED, ...SUPERVISED };
/** What `nostray share` can have. */
export const SHARE = {
  ...ANY,
  ...SUPERVISED,
  respawn: yesOrNo,
  key: text,
  shareEnv: list,
  anyDir: text,
  linger: time,
  requireShare: text,
  reverse: text,
  routeBy: list,
};

/** The words for these options. What is `undefined` or `null` is left to the program. */
export function toArguments(options, known) {
  return Object.entries(options ?? {}).flatMap(([name, value]) => {
    if (!Object.hasOwn(known, name)) throw new TypeError(`nostray has no option '${name}' here`);
    const flag = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    return value === undefined || value === null ? [] : known[name](flag, value);
  });
}

/** A command line, for frameworks that take a command and its arguments. */
export function command(program, args = [], { share = false, ...options } = {}) {
  const own = share ? ["share", ...toArguments(options, SHARE)] : ["run", ...toArguments(options, RUN)];
  return { command: findProgram(), args: [...own, "--", program, ...args] };
}
