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

# With this exit code, a check says that it is no part of --quick.
not_quick=77

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
  # At a fixed address: a program that can be loaded anywhere (static-pie) takes 9 % more of a processor to start, and front, spare and
  # guard then take 277 KiB instead of 260, for pointers that each of them has to write. lintian does not object.
  local flags=(-C linker-flavor=ld.lld -C relocation-model=static -C target-feature=+crt-static)
  # Between flags stands a character that no path has.
  local encoded encoded_for_docs
  encoded_for_docs=$(printf '\037%s' "${flags[@]}")
  # rustdoc does not take these.
  flags+=("--remap-path-prefix=$registry=crates" "--remap-path-prefix=$root=nostray" "--remap-path-prefix=$(rustc --print sysroot)=rust")
  encoded=$(printf '\037%s' "${flags[@]}")
  env "CARGO_TARGET_${upper}_LINKER=rust-lld" "CARGO_ENCODED_RUSTFLAGS=${encoded:1}" "CARGO_ENCODED_RUSTDOCFLAGS=${encoded_for_docs:1}" \
    CARGO_TARGET_DIR="$work/cargo" CARGO_INCREMENTAL=0 "$@"
}

# How Rust builds the program for Windows: `windows_build COMMAND...`, likewise. No time of the build may stand in its head, and no symbol:
# rustc names the libraries of imports that it makes on the way after a folder whose name is random.
# `windows_cargo` is where it builds.
windows_target=x86_64-pc-windows-gnu
windows_build() {
  local registry=${CARGO_HOME:-$HOME/.cargo}/registry/src encoded
  encoded=$(printf '\037%s' -C link-arg=-Wl,--no-insert-timestamp "--remap-path-prefix=$registry=crates" "--remap-path-prefix=$root=nostray" \
    "--remap-path-prefix=${windows_cargo:?}=nostray/target" "--remap-path-prefix=$(rustc --print sysroot)=rust")
  env "CARGO_ENCODED_RUSTFLAGS=${encoded:1}" CARGO_TARGET_DIR="$windows_cargo" CARGO_INCREMENTAL=0 \
    CARGO_PROFILE_RELEASE_STRIP=symbols "$@"
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

# `came_from ORIGIN COMMAND...`: the doctor of this nostray says where it came from.
came_from() {
  local origin=$1 said
  shift
  # Its exit code tells of what it finds on this machine.
  said=$("$@" doctor --json) || true
  grep -q "\"origin\": *\"$origin\"" <<<"$said" || fail "the doctor does not say that it came from $origin: $said"
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

# `in_root FOLDER COMMAND...` runs a command with that folder as /, without network, with processes and mounts of its own: they end with it.
in_root() {
  unshare --mount --propagation private --pid --fork --kill-child --net --ipc bash -euc '
    mkdir -p "$1/proc" "$1/dev" "$1/tmp"
    mount -t proc proc "$1/proc"
    mount -t tmpfs -o mode=755 dev "$1/dev"
    mkdir "$1/dev/pts" "$1/dev/shm"
    for device in null zero random urandom tty; do
      : >"$1/dev/$device"
      mount --bind "/dev/$device" "$1/dev/$device"
    done
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$1/dev/pts"
    ln -s pts/ptmx "$1/dev/ptmx"
    ip link set lo up 2>/dev/null || true
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb chroot "$@"
  ' in_root "$@"
}

# A busybox without libraries in $busybox: Debian's, unpacked, since a machine may have the other kind installed.
static_busybox() {
  busybox=$work/busybox/bin/busybox
  [ ! -x "$busybox" ] || return 0
  rm -rf "$work/busybox"
  mkdir -p "$work/busybox"
  (
    cd "$work/busybox"
    apt-get download -qq busybox-static || { apt-get update -qq && apt-get download -qq busybox-static; }
    dpkg-deb -x ./*.deb .
  )
  # Debian has moved /bin into /usr.
  [ -x "$busybox" ] || ln -s usr/bin "$work/busybox/bin"
}
