#!/usr/bin/env bash
# ./rlx on a machine where others can write: what they leave in shared folders and in the environment is not followed.
set -euo pipefail
checkout=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  printf 'launcher: %s\n' "$*"
  exit 1
}

launch() { env -u XDG_RUNTIME_DIR TMPDIR="$work/tmp" RLX_TOOLCHAIN=host RLX_IN_TOOLCHAIN=1 "$@"; }
runtime_dir() { launch "$checkout/rlx" shell printenv XDG_RUNTIME_DIR; }

mkdir "$work/tmp"
own=$(runtime_dir)
[[ $own == "$work/tmp/rlx-runtime-$UID" && $(stat -c %a "$own") == 700 ]] || fail "no private runtime folder: $own"
[[ $(runtime_dir) == "$own" ]] || fail "the runtime folder is not used again"

rmdir "$own"
mkdir -m 755 "$work/elsewhere"
ln -s "$work/elsewhere" "$own"
other=$(runtime_dir)
[[ $other != "$own" && $(stat -c %a "$other") == 700 ]] || fail "a link is taken for the runtime folder"
[[ $(stat -c %a "$work/elsewhere") == 755 ]] || fail "the rights of what a link leads to are changed"

[[ $(RLX_LAUNCHER_ROOT=$work/elsewhere launch "$checkout/rlx" shell echo here) == here ]] || fail "RLX_LAUNCHER_ROOT is followed"
status=0
said=$(launch "$checkout/rlx" @inside "$(readlink /proc/self/ns/mnt)" "$work/elsewhere" shell true 2>&1) || status=$?
[[ $status == 2 && $said == *"@inside is for ./rlx itself"* ]] || fail "mounts outside of a namespace of its own: $said"
[[ -z $(ls "$work/elsewhere") ]] || fail "something is mounted in a folder that the caller names"
echo "launcher: all cases passed"
