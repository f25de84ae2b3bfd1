// Lets the conformance suite run on Node 20: it imports `globSync` of a later one, for a command that is not used here.
//   node --import ./conformance.mjs node_modules/@modelcontextprotocol/conformance/dist/index.js ...

import { register } from 'node:module';

const module = (source) => `data:text/javascript,${encodeURIComponent(source)}`;
register(
  module(`export async function resolve(what, context, next) {
    const isSuite = context.parentURL?.includes('/conformance/dist/');
    return what === 'fs' && isSuite ? { url: ${JSON.stringify(
      module("export * from 'node:fs'; export const globSync = () => [];"),
    )}, shortCircuit: true } : next(what, context);
  }`),
);
