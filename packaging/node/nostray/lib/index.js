// What `import ... from "nostray"` gives.
export { findProgram, ProgramNotFoundError } from "./program.js";
