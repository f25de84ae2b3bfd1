/** The package of this platform, which has the program, is not installed. */
export declare class ProgramNotFoundError extends Error {
  name: "ProgramNotFoundError";
}

/**
 * The path of the program `nostray` that was installed with this package. `PATH` is not searched.
 *
 * @throws {ProgramNotFoundError} on a platform without a package, or if npm was told to omit optional dependencies.
 */
export declare function findProgram(): string;
