// What `import ... from "nostray"` gives.
export { command } from "./arguments.js";
export { CallError, ChildDiedError, LeaseClosedError, NostrayError, SlotTakenError } from "./errors.js";
export { Lease } from "./lease.js";
export { dieWithParent, watchParent } from "./parent.js";
export { findProgram, ProgramNotFoundError } from "./program.js";
export { registry } from "./registry.js";
export { Session } from "./session.js";
export { Slot } from "./slot.js";
export { spawn } from "./spawn.js";
