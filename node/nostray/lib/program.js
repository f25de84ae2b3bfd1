// Where the program is that was installed with this package.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

export class ProgramNotFoundError extends Error {
  name = "ProgramNotFoundError";
}

let found;

export function findProgram() {
  if (found !== undefined) return found;
  const platform = `@nostray/${process.platform}-${process.arch}`;
  try {
    found = require.resolve(`${platform}/bin/nostray`);
  } catch (cause) {
    throw new ProgramNotFoundError(
      `the package ${platform} is missing; nostray is there for linux-x64 and linux-arm64; ` +
        "install it again on this machine, with optional dependencies: npm install --include=optional nostray",
      { cause },
    );
  }
  return found;
}
