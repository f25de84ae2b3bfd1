// Reads lines from a stream. A line ends with 0x0A and with nothing else: U+2028 is data, and so is half a UTF-8 sequence at the end of
// a chunk. A line that is too long for a string is passed over.
import { constants } from "node:buffer";

export function readLines(stream, onLine) {
  // Of a line whose end has not come yet. They are joined once, so that a long line is not copied for each of its chunks.
  let parts = [];
  stream.on("data", (chunk) => {
    let from = 0;
    for (let end; (end = chunk.indexOf(10, from)) !== -1; from = end + 1) {
      let line = chunk.subarray(from, end);
      if (parts.length > 0) {
        line = Buffer.concat([...parts, line]);
        parts = [];
      }
      if (line.length <= constants.MAX_STRING_LENGTH) onLine(line.toString());
    }
    if (from < chunk.length) parts.push(from === 0 ? chunk : chunk.subarray(from));
  });
}

/** The object that this line is, or undefined: a child may print anything. */
export function parseObject(line) {
  // Programs print far more text than objects that are not whole; an exception for each would be slow.
  if (line.charCodeAt(0) !== 0x7b && !line.trimStart().startsWith("{")) return undefined;
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Reads what nostray writes into its status descriptor, or a command to its stdout: an object with an `event` a line. */
export function readEvents(stream, onEvent) {
  readLines(stream, (line) => {
    const event = parseObject(line);
    if (event !== undefined) onEvent(event);
  });
}
