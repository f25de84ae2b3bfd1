// Serves the npm packages of a folder as a registry does, on this machine alone: node registry.mjs FOLDER prints its address and stays.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const folder = process.argv[2];
const packages = new Map();
for (const file of readdirSync(folder).filter((file) => file.endsWith(".tgz"))) {
  const path = join(folder, file);
  const manifest = JSON.parse(execFileSync("tar", ["-xOzf", path, "package/package.json"], { encoding: "utf8" }));
  const integrity = `sha512-${createHash("sha512").update(readFileSync(path)).digest("base64")}`;
  packages.set(manifest.name, { file, path, manifest, integrity });
}

const server = createServer((request, response) => {
  const path = decodeURIComponent(request.url.slice(1));
  const served = [...packages.values()].find(({ file }) => path === `files/${file}`);
  const found = packages.get(path);
  if (served) {
    response.end(readFileSync(served.path));
  } else if (found) {
    const { file, manifest, integrity } = found;
    const dist = { tarball: `http://${request.headers.host}/files/${file}`, integrity };
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({
        name: manifest.name,
        "dist-tags": { latest: manifest.version },
        versions: { [manifest.version]: { ...manifest, dist } },
      }),
    );
  } else {
    response.writeHead(404).end("{}");
  }
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
