export { findProgram, ProgramNotFoundError } from "./program.js";
