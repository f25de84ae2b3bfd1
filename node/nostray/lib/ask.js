// One question to the program, like `nostray ps --json`: what it says, and how it ends.
import { execFile } from "node:child_process";
import { NostrayError } from "./errors.js";
import { findProgram } from "./program.js";

/**
 * What the program prints. `okay` are the exit codes that are no failure: some commands say "none" with 1.
 * Resolves with the code and what is on stdout and stderr.
 */
export function ask(args, { okay = [0], env, signal } = {}) {
  return new Promise((resolve, reject) => {
    const options = { env: env ?? process.env, signal, maxBuffer: Infinity };
    execFile(findProgram(), args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : error.code;
      if (okay.includes(code)) resolve({ code, stdout, stderr });
      else if (typeof code === "number") reject(new NostrayError(stderr.trim() || `nostray ${args[0]} exited with code ${code}`));
      else reject(error);
    });
  });
}
