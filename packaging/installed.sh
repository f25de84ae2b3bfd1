# shellcheck shell=bash disable=SC2154
# For the checks in check.d that install a package and run the program in it. Source it after common.sh. $program is the program that
# `packaging/binary` has made for this machine.
program=$(binary "$(uname -m)")

# Runs the rest of a check without network, with processes of its own: calls the script again, with $offline set, and exits as that does.
# Call it when scratch and tools are there. Inside, "${ordinary[@]}" runs a command as a user who is not root.
offline() {
  if [ -n "${offline-}" ]; then
    # Package managers leave temporary files.
    export TMPDIR=$scratch/tmp
    mkdir "$TMPDIR"
    ordinary=()
    [ "$offline" != root ] || ordinary=(setpriv --reuid 65534 --regid 65534 --clear-groups --)
    return 0
  fi
  needs ip:iproute2 setpriv:util-linux
  local status=0 unshare=(unshare --net --pid --fork --kill-child --mount-proc)
  export scratch offline=root
  if [ "$(id -u)" != 0 ]; then
    offline=user
    unshare+=(--map-root-user)
  fi
  "${unshare[@]}" true || fail "unshare cannot make namespaces here, so the check cannot prove that it needs no network; run it as root"
  "${unshare[@]}" bash -c 'ip link set lo up && "$@"' offline "$0" "$@" || status=$?
  exit "$status"
}

# Calls this check once more, with --quick, as a user who is not root, from copies that this user can read. Only inside `offline`, as root.
quick_as_ordinary_user() {
  [ "${#ordinary[@]}" -gt 0 ] || return 0
  step "the quick half as a user who is not root"
  local own=$scratch/ordinary architecture
  mkdir "$own" "$own/scratch"
  for architecture in $architectures; do
    install -D "$(binary "$architecture")" "$own/target/packaging/$architecture/nostray"
  done
  cp -r packaging python node Cargo.toml "$dist" "$own"
  chown -R 65534:65534 "$own"
  "${ordinary[@]}" env DIST="$own/${dist##*/}" HOME="$own" TMPDIR="$own" scratch="$own/scratch" offline=user \
    "$own/${0#"$root/"}" --quick
}

# In the namespace of `offline`: no process is left but those that run the check. Some may be about to end.
nothing_is_running() {
  step "nothing is left running"
  local deadline=$((SECONDS + 10)) process left
  while :; do
    left=
    for process in /proc/[0-9]*; do
      case ${process#/proc/} in 1 | "$$" | "$PPID") continue ;; esac
      left+="${process#/proc/} $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null || true)"$'\n'
    done
    [ -n "$left" ] || return 0
    [ "$SECONDS" -lt "$deadline" ] || fail "processes are left:"$'\n'"$left"
    sleep 0.1
  done
}

# `starts COMMAND...`: the command is nostray of this version.
starts() {
  local said
  said=$("$@" --version) || fail "$* --version failed"
  [ "$said" = "nostray $version" ] || fail "$* --version says '$said' instead of 'nostray $version'"
}

demo() {
  step "demo: $*"
  "$@" demo >"$scratch/demo" || fail "the demo failed: $(cat "$scratch/demo")"
  grep 'Nothing is left' "$scratch/demo" || fail "the demo did not say that nothing is left: $(cat "$scratch/demo")"
}

# `alone COMMAND...`: from the process that the host has started down to the child, each is the program.
alone() {
  local child pid answer
  mkfifo "$scratch/child"
  # Open for both, so that a command that fails is not waited for.
  exec {answer}<>"$scratch/child"
  "$@" run -- sh -c 'echo $$ >"$0"; exec sleep 1000' "$scratch/child" &
  local front=$!
  read -rt 30 -u "$answer" child || fail "$* has started no child after 30 s"
  exec {answer}<&-
  rm "$scratch/child"
  pid=$child
  while [ "$pid" != "$front" ]; do
    pid=$(awk '$1 == "PPid:" { print $2 }' "/proc/$pid/status")
    cmp -s "/proc/$pid/exe" "$program" || fail "$(tr '\0' ' ' <"/proc/$pid/cmdline") stays between the host and its child"
  done
  kill "$front"
  wait "$front" || true
  [ ! -e "/proc/$child" ] || fail "the child is left when nostray has ended"
}
