// Every program in the documentation runs to its end and leaves nothing, with stand-ins for the servers that the text names.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { folder, nothingIsLeft, server } from "./support/scene.mjs";

const root = join(import.meta.dirname, "..");
const bin = join(folder, "bin");
const STAND_INS = { "some-server": server("mcp1"), npx: server("mcp1"), "memory-bridge": join(root, "examples", "node", "bridge.mjs") };
mkdirSync(bin);
for (const [name, script] of Object.entries(STAND_INS)) {
  writeFileSync(join(bin, name), `#!/bin/sh\nexec node '${script}'\n`, { mode: 0o755 });
}

for (const page of ["docs/node.md", "node_modules/nostray/README.md"]) {
  const blocks = [...readFileSync(join(root, page), "utf8").matchAll(/^```(js|ts)\n(.*?)^```$/gms)];
  test(`${page} has programs, all of them in JavaScript`, () => {
    assert(blocks.length > 0 && blocks.every(([, language]) => language === "js"));
  });
  for (const [index, [, , code]] of blocks.entries()) {
    test(`program ${index + 1} of ${page} runs`, { timeout: 30_000 }, async () => {
      const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
        cwd: root,
        env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` },
        stdio: ["ignore", "pipe", "pipe"],
      });
      const [stdout, stderr, [exitCode]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
      assert.equal(exitCode, 0, `${stdout}\n${stderr}`);
      await nothingIsLeft();
    });
  }
}
