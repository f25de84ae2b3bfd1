export { command, type ContainedOptions, type ShareOptions, type SupervisedOptions, type Time } from "./arguments.js";
export { CallError, ChildDiedError, LeaseClosedError, NostrayError, SlotTakenError } from "./errors.js";
export { Lease, type LeaseEnd, type LeaseOptions, type Limits, type Notification, type Remove, type ServerInfo } from "./lease.js";
export { dieWithParent, type ParentWatch, watchParent } from "./parent.js";
export { findProgram, ProgramNotFoundError } from "./program.js";
export { type JournalEntry, type RegisteredChild, registry, type Selection, type Swept } from "./registry.js";
export { Session } from "./session.js";
export { Slot, type SlotOptions } from "./slot.js";
export { type Child, type Contained, type Exit, spawn, type SpawnOptions } from "./spawn.js";
