// Numbers and texts as `nostray ps` writes them.

// What others have written may hold characters that are not seen, or that turn a line around: they are spelled out.
const INVISIBLE = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;
const shown = (text) => String(text ?? "").replace(INVISIBLE, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

function bytes(number) {
  let value = number / 1024, unit = 0;
  while (value >= 1000 && unit < 3) {
    value /= 1024;
    unit += 1;
  }
  return value.toFixed(value < 10 ? 1 : 0) + "KMGT"[unit];
}

function span(milliseconds) {
  const s = Math.max(0, Math.floor(milliseconds / 1000));
  if (s < 60) return `${s}s`;
  if (s < 600) return `${Math.floor(s / 60)}m${s % 60}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 36000) return `${Math.floor(s / 3600)}h${Math.floor((s % 3600) / 60)}m`;
  if (s < 86400) return `${Math.floor(s / 3600)}h`;
  if (s < 864000) return `${Math.floor(s / 86400)}d${Math.floor((s % 86400) / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

const counted = (number, one, many) => `${number} ${number === 1 ? one : many}`;
const timeOfDay = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
const moment = (ms) => new Date(ms).toLocaleString([], { hour12: false });

// The colour of a state, as in the terminal.
const COLOURS = {
  unreadable: "bad", orphaned: "bad", unproved: "bad", frozen: "bad", tripped: "bad", "backing-off": "warn", stopping: "warn",
  starting: "warn", ready: "good", lingering: "news", asleep: "dim",
};
// Those that need a person come first.
const STATES = Object.keys(COLOURS);
