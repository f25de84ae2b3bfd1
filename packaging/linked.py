"""What is linked into the static program: the crates, Rust's standard library, LLVM's unwinder and musl, each with its licence.

    python3 packaging/linked.py copyright ARCHITECTURE [--debian]   the notices and licence texts, in Debian's machine-readable form
    python3 packaging/linked.py sbom ARCHITECTURE PROGRAM           a CycloneDX document about the program

Both go to stdout, and depend on Cargo.lock, the installed Rust and SOURCE_DATE_EPOCH alone. With --debian, a text that every Debian has is
named and not repeated. A licence without a text in packaging/licences is an error.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LICENCES = ROOT / "packaging/licences"
ON_DEBIAN = "On Debian systems, the whole text of this licence is in\n/usr/share/common-licenses/Apache-2.0."
NOTICE = re.compile(r"^[^\w\n]*copyright\s+(?:\(c\)|©|(?=\d{4}|individual))\s*(.*\w.*)$", re.IGNORECASE | re.MULTILINE)


@dataclass
class Part:
    name: str
    version: str | None
    license: str
    copyright: list[str]
    description: str = ""
    checksum: str | None = None
    ours: bool = False
    uses: list[str] = field(default_factory=list)


def output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def stop(message: str) -> None:
    sys.exit(f"error: {message}")


def spdx(expression: str) -> str:
    """Crates that are older than SPDX expressions write `MIT/Apache-2.0`."""
    return re.sub(r"\s*/\s*", " OR ", expression)


def notices(folder: Path, authors: list[str], name: str) -> list[str]:
    """The copyright notices in the licence files of a crate; without one, its authors."""
    found = []
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "COPYRIGHT")):
            lines = [line.strip() for line in NOTICE.findall(file.read_text(errors="replace"))]
            # Some crates name the years alone.
            holders = ", ".join(authors) or f"the developers of {name}"
            found += [line if re.search(r"[^\W\d]", line) else f"{line} {holders}" for line in lines]
        if file.name.upper().startswith("NOTICE"):
            stop(f"{name} has a {file.name}, which Apache-2.0 wants to be handed on: teach packaging/linked.py to do that")
    return sorted(set(found)) or authors or [f"The developers of {name}"]


def crates(target: str) -> list[Part]:
    """The crates that cargo links into the program: no build scripts, no macros, no tests."""
    tree = output("cargo", "tree", "--locked", "-p", "nostray", "-e", "normal,no-proc-macro", "--target", target, "--prefix", "none",
                  "--format", "{p}")
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    packages = {p["id"]: p for p in metadata["packages"] if (p["name"], "v" + p["version"]) in linked}
    if len(packages) != len(linked):
        stop("cargo tree and cargo metadata name different crates")
    sums = {(p["name"], p["version"]): p.get("checksum") for p in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    uses = {node["id"]: [d["pkg"] for d in node["deps"] if d["pkg"] in packages and any(k["kind"] is None for k in d["dep_kinds"])]
            for node in metadata["resolve"]["nodes"]}
    parts = []
    for identity, p in packages.items():
        if not p["license"]:
            stop(f"{p['name']} {p['version']} names no licence")
        ours = p["source"] is None
        copyright = ["2026 The nostray authors"] if ours else notices(Path(p["manifest_path"]).parent, p["authors"], p["name"])
        needed = sorted(purl(packages[other]["name"], packages[other]["version"]) for other in uses[identity])
        checksum = sums[p["name"], p["version"]]
        parts.append(Part(p["name"], p["version"], spdx(p["license"]), copyright, p["description"] or "", checksum, ours, needed))
    return sorted(parts, key=lambda part: (part.name, part.version))


def versions(target: str) -> dict[str, str]:
    """The versions that beside-crates.toml refers to."""
    rust = dict(line.split(": ", 1) for line in output("rustc", "-vV").splitlines() if ": " in line)
    if not target.endswith("-musl"):
        return {"rust": rust["release"]}
    libc = Path(output("rustc", "--print", "sysroot").strip()) / "lib/rustlib" / target / "lib/self-contained/libc.a"
    musl = re.search(rb"\0(1\.\d+\.\d+)\0", libc.read_bytes())
    if not musl:
        stop(f"{libc} does not say which version of musl it is")
    return {"rust": rust["release"], "llvm": rust["LLVM version"], "musl": musl[1].decode()}


def beside(target: str) -> list[Part]:
    found = versions(target)
    listed = tomllib.loads((LICENCES / "beside-crates.toml").read_text())["part"]
    linked = [p for p in listed if p.get("version", "rust") in found]
    return [Part(p["name"], found[p["version"]] if "version" in p else None, p["license"], p["copyright"]) for p in linked]


def purl(name: str, version: str) -> str:
    return f"pkg:cargo/{name}@{version.replace('+', '%2B')}"


def folded(text: str) -> str:
    """As the value of a field over many lines: each line behind a space, an empty one as a dot."""
    return "\n".join(f" {line.rstrip()}" if line.strip() else " ." for line in text.strip("\n").splitlines())


def texts(parts: list[Part], debian: bool) -> list[str]:
    """A paragraph for each licence that some part is under."""
    names = {name for part in parts for name in re.split(r"\s+(?:AND|OR)\s+|[()]", part.license) if name}
    paragraphs = []
    for name in sorted(names):
        base, _, exception = name.partition(" WITH ")
        if base == "Apache-2.0":
            text = ON_DEBIAN if debian else (ROOT / "LICENSE-APACHE").read_text()
        else:
            text = licence_text(base)
        if exception:
            text += "\n" + licence_text(exception)
        paragraphs.append(f"License: {debian_name(name)}\n{folded(text)}\n")
    return paragraphs


def licence_text(name: str) -> str:
    file = LICENCES / f"{name}.txt"
    if not file.is_file():
        stop(f"there is no text of the licence {name}: look whether it fits, and put its text into packaging/licences/{name}.txt")
    return file.read_text()


def debian_name(expression: str) -> str:
    """Debian writes `or` and `and`, and names an exception as `with NAME exception`."""
    for old, new in (("MIT", "Expat"), (" OR ", " or "), (" AND ", " and "), (" WITH LLVM-exception", " with LLVM exception")):
        expression = re.sub(rf"\b{old}\b" if old == "MIT" else old, new, expression)
    return expression


def copyright(target: str, debian: bool) -> str:
    linked = crates(target)
    others = [part for part in linked if not part.ours] + beside(target)
    paragraphs = [
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        "Upstream-Name: nostray\n"
        "Comment:\n"
        " The program is linked statically. Below linked/ is what it contains of other\n"
        " projects: crates by name and version, Rust's standard library (rust-std)"
        + (",\n LLVM's unwinder and the C library musl.\n" if target.endswith("-musl") else ".\n"),
        "Files: *\nCopyright: 2026 The nostray authors\nLicense: Expat or Apache-2.0\n",
    ]
    for part in others:
        folder = f"{part.name}-{part.version}" if part.version else part.name
        lines = "\n           ".join(part.copyright)
        paragraphs.append(f"Files: linked/{folder}/*\nCopyright: {lines}\nLicense: {debian_name(part.license)}\n")
    return "\n".join(paragraphs + texts(others, debian))


def component(part: Part) -> dict:
    crate = part.ours or part.checksum
    made = {"type": "library", "name": part.name, "version": part.version, "scope": "required"}
    made["bom-ref"] = made["purl"] = purl(part.name, part.version) if crate else f"pkg:generic/{part.name}@{part.version}"
    if part.description:
        made["description"] = " ".join(part.description.split())
    if part.checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": part.checksum}]
    made["licenses"] = [{"expression": part.license}]
    return made


def sbom(target: str, program: Path) -> str:
    linked = crates(target)
    machine = [part for part in beside(target) if part.version]
    program_part = next(part for part in linked if part.name == "nostray")
    main = component(program_part) | {
        "type": "application",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(program.read_bytes()).hexdigest()}],
        "properties": [{"name": "nostray:target", "value": target}],
    }
    rest = [part for part in linked if part is not program_part] + machine
    graph = [{"ref": purl(part.name, part.version), "dependsOn": part.uses} for part in linked]
    runtime = [component(part)["bom-ref"] for part in machine]
    for node in graph:
        if node["ref"] == main["bom-ref"]:
            node["dependsOn"] = sorted(node["dependsOn"] + runtime)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "build"}],
            "component": main,
        },
        "components": [component(part) for part in rest],
        "dependencies": sorted(graph + [{"ref": ref} for ref in runtime], key=lambda node: node["ref"]),
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True))
    head = {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "serialNumber": f"urn:uuid:{serial}"}
    return json.dumps(head | document, indent=2) + "\n"


def target_of(architecture: str) -> str:
    """An architecture stands for Linux with musl; another target has a name with hyphens."""
    return architecture if "-" in architecture else f"{architecture}-unknown-linux-musl"


def main(arguments: list[str]) -> None:
    match arguments:
        case ["copyright", architecture, *options] if options in ([], ["--debian"]):
            sys.stdout.write(copyright(target_of(architecture), bool(options)))
        case ["sbom", architecture, program]:
            sys.stdout.write(sbom(target_of(architecture), Path(program)))
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
