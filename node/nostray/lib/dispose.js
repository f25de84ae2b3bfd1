// The symbol of `await using`. Node has it since 20.4; compilers put the same name in place of it before.
export const asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");
