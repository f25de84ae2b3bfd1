# shellcheck shell=bash disable=SC2034
# For the scripts in this folder, which source it: where things are, which version this is, and what makes two builds the same.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# What is made for people, and what is only needed on the way.
dist=${DIST:-$root/dist}
work=$root/target/packaging
mkdir -p "$dist" "$work"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architectures=${ARCHITECTURES:-x86_64 aarch64}
# No time, zone, language, folder or mask of this machine may show in a package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

step() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# The static program for an architecture, as `packaging/binary` has made it.
binary() { printf '%s/%s/nostray' "$work" "$1"; }

# A virtual environment with the pinned tools of `requirements.txt`.
tools() {
  local made="$work/tools/made-from"
  if ! cmp -s packaging/requirements.txt "$made" 2>/dev/null; then
    rm -rf "$work/tools"
    python3 -m venv "$work/tools"
    "$work/tools/bin/pip" install --quiet --disable-pip-version-check -r packaging/requirements.txt
    cp packaging/requirements.txt "$made"
  fi
  PATH="$work/tools/bin:$PATH"
}

# `share/man/man1` and `share/completions`, written by the program itself, in the folder that is given.
pages() {
  mkdir -p "$1/man/man1" "$1/completions"
  local nostray
  nostray=$(binary x86_64)
  "$nostray" man --dir "$1/man/man1"
  "$nostray" completions bash >"$1/completions/nostray.bash"
  "$nostray" completions zsh >"$1/completions/_nostray"
  "$nostray" completions fish >"$1/completions/nostray.fish"
}

# How Rust builds the static program: `static_build ARCHITECTURE COMMAND...` runs a command of cargo's (or maturin's) with what it needs.
target_of() { printf '%s-unknown-linux-musl' "$1"; }
static_build() {
  local target upper registry
  target=$(target_of "$1")
  upper=$(tr a-z- A-Z_ <<<"$target")
  registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
  shift
  # The linker and the C library that come with Rust, so that no cross compiler is needed.
  local flags=(-C linker-flavor=ld.lld -C relocation-model=static -C target-feature=+crt-static)
  local path
  for path in "$registry"/*/; do
    [ ! -d "$path" ] || flags+=("--remap-path-prefix=${path%/}=crates")
  done
  flags+=("--remap-path-prefix=$root=nostray" "--remap-path-prefix=$(rustc --print sysroot)=rust")
  env "CARGO_TARGET_${upper}_LINKER=rust-lld" "CARGO_TARGET_${upper}_RUSTFLAGS=${flags[*]}" \
    CARGO_TARGET_DIR="$work/cargo" CARGO_INCREMENTAL=0 "$@"
}

# Installs missing programs: `needs PROGRAM:DEBIAN-PACKAGE...`.
needs() {
  local missing=() tool
  for tool in "$@"; do
    command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || fail "install ${missing[*]}, or run this as root"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# A temporary folder in $scratch, which goes away with the script, however the script ends.
scratch() {
  scratch=$(mktemp -d)
  # The tests change the modes of folders.
  trap 'chmod -R u+rwX "$scratch"; rm -rf --one-file-system "$scratch"' EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
}
