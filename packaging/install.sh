#!/bin/sh
# Installs nostray from the folder that this script is in, and removes it again. `sh install.sh --help` says how.
# It needs no root, downloads nothing, and changes no startup file of a shell.
#
# PREFIX/share/nostray/receipt says what belongs to an installation. A line is a word, a space and a value:
#   nostray-receipt 1        the first line: the version of this format
#   installed-by install.sh
#   version 0.1.0            of nostray
#   folder PATH              a folder that this script has made, parents first
#   file SUM PATH            a file that this script has made, with its SHA-256
# PATH is relative to PREFIX, unless it begins with a slash. While an installation runs, and after one that was killed, receipt.partial
# beside it names in the same form what that installation was about to write.
#
# For shellcheck: functions are called by names in variables, some in a subshell on purpose; `fail` ends the script, so `a && b || fail`
# holds.
# shellcheck disable=SC2015,SC2030,SC2031,SC2317
set -eu
LC_ALL=C
export LC_ALL
version='@VERSION@'
machine='@ARCHITECTURE@'

usage() {
  cat <<END
Installs nostray $version for Linux on $machine.

  sh install.sh [--prefix FOLDER] [--force] [--dry-run]
  sh install.sh --uninstall [--prefix FOLDER] [--dry-run]

  --prefix FOLDER  install below this folder; without it, below ~/.local, or as root below /usr/local
  --force          overwrite files that this script did not install, and install on another kind of machine
  --uninstall      remove what was installed; FOLDER/share/nostray/uninstall.sh does the same
  --dry-run        say what would be done, and do nothing
END
}

say() { printf '%s\n' "$*"; }
fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

sum_of() {
  if command -v sha256sum >/dev/null 2>&1; then sha256sum <"$1"; else shasum -a 256 <"$1"; fi | cut -c 1-64
}

# Where the entry of a receipt is.
path_of() {
  case $1 in /*) printf '%s' "$1" ;; *) printf '%s/%s' "$prefix" "$1" ;; esac
}

# The lines of a kind in the receipt, and in those of installations that were killed; folders with parents first.
recorded() { cat "$receipt"* 2>/dev/null | sort -u | grep "^$1 "; }

# Calls a function for each $file of the archive that is to be installed, with its $sum, its $entry in the receipt and its $path.
for_each_new() {
  while read -r sum file; do
    case $file in
      share/bash-completion/* | share/fish/*) entry=$data/${file#share/} ;;
      bin/* | share/*) entry=$file ;;
      *) continue ;;
    esac
    path=$(path_of "$entry")
    "$1"
  done <"$here/SHA256SUMS"
}

# Calls a function for each recorded file, with its $sum, its $entry and its $path. What it says goes to the caller; its variables do not.
for_each_recorded() {
  recorded file | while read -r word sum entry; do
    path=$(path_of "$entry")
    "$1"
  done
}

check_sum() {
  [ -f "$here/$file" ] || fail "$file is missing in $here; unpack the archive again"
  [ "$(sum_of "$here/$file")" = "$sum" ] || fail "$file is not what SHA256SUMS says; download and unpack the archive again"
}

# Adds to $foreign what stands in the way and is not on record.
find_foreign() {
  [ ! -d "$path" ] || fail "$path is a folder, and nostray has a file of that name; move it away"
  [ -e "$path" ] || [ -L "$path" ] || return 0
  if [ -L "$path" ] || ! recorded file | grep -q -x -F -e "file $(sum_of "$path") $entry"; then
    foreign="$foreign
  $path"
  fi
}

# Adds to $folders what has to be made for a path, parents first.
find_folders() {
  case $1 in '') return ;; */*) find_folders "${1%/*}" ;; esac
  [ ! -d "$(path_of "$1")" ] || return 0
  case $folders in *"folder $1
"*) ;; *) folders="${folders}folder $1
" ;; esac
}

find_entry() {
  find_folders "${entry%/*}"
  files="${files}file $sum $entry
"
}

# Each file is copied to a name beside its own first, and gets its own name when all copies are there.
copy_of() { printf '%s/.nostray-install.%s.%s' "${path%/*}" "$1" "${path##*/}"; }
copy() {
  mode=644
  case $file in bin/* | *.sh) mode=755 ;; esac
  mkdir -p "${path%/*}" && cp "$here/$file" "$(copy_of $$)" && chmod "$mode" "$(copy_of $$)" ||
    fail "nothing was installed: cannot write to ${path%/*}. Make room there, or choose another folder with --prefix"
}
rename() { mv -f "$(copy_of $$)" "$path"; }
remove_copies() {
  for copy in "${path%/*}"/.nostray-install.*."${path##*/}"; do
    pid=${copy##*/.nostray-install.}
    pid=${pid%%.*}
    # Those of this process, and of installations that no longer run.
    if [ -f "$copy" ] && { [ "$pid" = $$ ] || ! kill -0 "$pid" 2>/dev/null; }; then rm -f "$copy"; fi
  done
}

is_unchanged() { [ -f "$path" ] && [ ! -L "$path" ] && [ "$(sum_of "$path")" = "$sum" ]; }
remove_if_left_out() {
  if ! printf '%s' "$files" | cut -d ' ' -f 3- | grep -q -x -F -e "$entry" && is_unchanged; then rm -f "$path"; fi
}
remove_if_unchanged() { if is_unchanged; then rm "$path" || exit; fi; }
say_if_unchanged() { if is_unchanged; then say "  $path"; fi; }
say_if_there() { if [ -e "$path" ] || [ -L "$path" ]; then say "  $path"; fi; }
say_path() { say "  $path"; }

# Folders that this script has made go if they are empty, children first.
remove_folders() {
  printf '%s\n' "$1" | sort -r -u | while read -r word entry; do
    [ "$word" != folder ] || rmdir "$(path_of "$entry")" 2>/dev/null || true
  done
}

read_receipt() {
  for one in "$receipt" "$receipt.partial"; do
    [ ! -f "$one" ] || [ "$(head -n 1 "$one")" = 'nostray-receipt 1' ] ||
      fail "$one has a form that this script does not know; remove nostray with ${receipt%/*}/uninstall.sh first"
  done
}

# For an installation that fails before the first file has its name: all is as before.
undo() {
  code=$?
  trap '' HUP INT TERM
  for_each_new remove_copies
  rm -f "$receipt.new.$$" "$receipt.partial.$$"
  if [ -z "$killed" ]; then rm -f "$receipt.partial"; fi
  remove_folders "$folders"
  exit "$code"
}

do_install() {
  here=$(cd "$(dirname "$0")" && pwd)
  [ -f "$here/SHA256SUMS" ] || fail "SHA256SUMS is not beside this script; unpack the whole archive, and run the install.sh in it"
  if [ "$(uname -s) $(uname -m)" != "Linux $machine" ] && [ -z "$force" ]; then
    fail "this archive is for Linux on $machine, and this is $(uname -s) on $(uname -m); --force installs it anyway"
  fi
  for_each_new check_sum
  foreign=''
  for_each_new find_foreign
  if [ -n "$foreign" ] && [ -z "$force" ]; then
    fail "these files were not installed by this script, or have changed since. --force overwrites them:$foreign"
  fi
  replaced=$(sed -n 's/^version //p' "$receipt" 2>/dev/null) || replaced=''
  if [ -n "$dry_run" ]; then
    say "Would install nostray $version${replaced:+ in place of $replaced}:"
    for_each_new say_path
    return
  fi

  folders='' files=''
  find_folders "$prefix"
  find_folders share/nostray
  for_each_new find_entry
  old_folders=$(recorded folder) || old_folders=''
  killed=$(cat "$receipt".partial* 2>/dev/null | grep '^file ') || killed=''
  head="nostray-receipt 1
installed-by install.sh
version $version
${old_folders:+$old_folders
}$folders"
  trap undo EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # What will be written is on record before the first byte of it, so that an installation that is killed can be repeated or removed.
  mkdir -p "${receipt%/*}" &&
    printf '%s%s%s\n' "$head" "$files" "$killed" >"$receipt.partial.$$" &&
    mv -f "$receipt.partial.$$" "$receipt.partial" && printf '%s%s' "$head" "$files" >"$receipt.new.$$" ||
    fail "nothing was installed: cannot write to ${receipt%/*}. Make room there, or choose another folder with --prefix"
  for_each_recorded remove_copies
  for_each_new copy
  trap - EXIT
  trap '' HUP INT TERM
  # Programs that run keep their file: a rename replaces the name alone.
  for_each_new rename
  for_each_recorded remove_if_left_out
  mv -f "$receipt.new.$$" "$receipt"
  rm -f "$receipt".partial* "$receipt".new.*

  say "nostray $version is installed${replaced:+ in place of $replaced}: $prefix/bin/nostray"
  found=$("$prefix/bin/nostray" --version 2>&1) || say "It does not start here, though: $found"
  case :$PATH: in
    *":$prefix/bin:"*)
      first=$(command -v nostray) || first=''
      [ "$first" = "$prefix/bin/nostray" ] || say "Another one comes before it in PATH: $first"
      ;;
    *) say "$prefix/bin is not in PATH. Add this line to ~/.profile:
  export PATH=\"$prefix/bin:\$PATH\"" ;;
  esac
  if [ "$prefix" != /usr/local ] && command -v zsh >/dev/null 2>&1; then
    say "For completions in zsh, add this line to ~/.zshrc, before compinit:
  fpath=(\"$prefix/share/zsh/site-functions\" \$fpath)"
  fi
  say "To remove it: nostray unwrap, then sh \"$prefix/share/nostray/uninstall.sh\""
}

do_uninstall() {
  recorded file >/dev/null || fail "there is no $receipt, so nothing of this script's is installed below $prefix"
  if [ -n "$dry_run" ]; then
    say "Would remove:"
    for_each_recorded say_if_unchanged
    return
  fi
  for_each_recorded remove_if_unchanged || fail "cannot remove what is below $prefix; do you need another user's rights?"
  for_each_recorded remove_copies
  kept=$(for_each_recorded say_if_there | sort -u)
  folders=$(recorded folder) || folders=''
  rm -f "$receipt" "$receipt".partial* "$receipt".new.*
  remove_folders "$folders"
  say "nostray is removed from $prefix."
  [ -z "$kept" ] || say "These files have changed since, and are kept:
$kept"
}

main() {
  umask 022
  action=do_install prefix='' data='' force='' dry_run=''
  # Installed as uninstall.sh, this script removes what it was installed with.
  case $0 in
    *uninstall.sh)
      action=do_uninstall
      prefix=$(cd "$(dirname "$0")/../.." && pwd)
      ;;
  esac
  while [ $# -gt 0 ]; do
    case $1 in
      --prefix)
        [ -n "${2:-}" ] || fail "--prefix needs a folder"
        prefix=$2
        shift
        ;;
      --prefix=?*) prefix=${1#--prefix=} ;;
      --uninstall) action=do_uninstall ;;
      --force) force=yes ;;
      --dry-run) dry_run=yes ;;
      -h | --help)
        usage
        return
        ;;
      *) fail "unknown option $1; see sh install.sh --help" ;;
    esac
    shift
  done
  command -v sha256sum >/dev/null 2>&1 || command -v shasum >/dev/null 2>&1 ||
    fail "neither sha256sum nor shasum is there, so the files cannot be checked. Install one of them (coreutils, busybox, perl)"
  if [ -z "$prefix" ]; then
    if [ "$(id -u)" = 0 ]; then
      prefix=/usr/local
    else
      prefix=${HOME:?install.sh needs HOME or --prefix}/.local
      # Here bash and fish look for the completions of a user.
      case ${XDG_DATA_HOME:-} in "$prefix/share" | "$prefix/share/") ;; /*) data=${XDG_DATA_HOME%/} ;; esac
    fi
  fi
  case $prefix in
    *'
'*) fail "the prefix may not contain a newline" ;;
    /*) ;;
    *) prefix=$PWD/$prefix ;;
  esac
  while [ "$prefix" != "${prefix%/}" ]; do prefix=${prefix%/}; done
  receipt=$prefix/share/nostray/receipt
  data=${data:-share}
  read_receipt
  "$action"
}

# In a function, so that the shell has read the whole script before the script is replaced or removed.
main "$@"
exit
