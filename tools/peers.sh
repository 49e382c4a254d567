# Fetches what `rlx bench --peer` compares with, once, into the cache directory. Sourced by ./rlx after tools/models.sh.
# shellcheck shell=bash
#
# Without it the program itself says what is missing: whatever goes wrong here is a sentence, not the end.

peers_dir=${models_dir%/models}/peers

# ONNX Runtime for node (MIT), 114 MB, and the types it shares with its other bindings. src/measure/peer_ort.cpp knows the name.
ort_package=(onnxruntime-node 1.30.0
  b7086cd42d82fc1164cf5c9ce4e634288536194aba0d444eee10f86f1e50d90cb79c0309c115d6f31537355733136f5503d96894b3987a9a03f1f8d318e7c8ab)
ort_common=(onnxruntime-common 1.30.0
  edf7555a30080f5755847fc6f2a2b700f011ba7578564045a024003fbaa9e1691a6f49aba2bbe673eb2a893fa62973b30ea7633798fefd9f676f883334f59cc8)

# peer_of COMMAND ARGUMENT...: what `bench --peer` names, or nothing.
peer_of() {
  local argument before='' peer=''
  [[ ${1-} == bench ]] || return 0
  for argument in "${@:2}"; do
    case $argument in
      -h | --help) return 0 ;;
      --peer=*) peer=${argument#--peer=} ;;
      *) [[ $before != --peer ]] || peer=$argument ;;
    esac
    before=$argument
  done
  printf '%s' "$peer"
}

# fetch_peer COMMAND ARGUMENT...: outside the toolchain, with the npm of this machine.
fetch_peer() {
  local models_dir=$peers_dir  # where fetch_package puts packages
  case $(peer_of "$@") in
    ort | ort-cpu)
      fetch_package "${ort_package[@]}" && fetch_package "${ort_common[@]}" || return 0
      local modules=$peers_dir/${ort_package[0]}-${ort_package[1]}/node_modules
      mkdir -p "$modules" && ln -sfn "../../${ort_common[0]}-${ort_common[1]}" "$modules/${ort_common[0]}" || true
      ;;
  esac
}

# prepare_peer COMMAND ARGUMENT...: inside the toolchain, what comes from Debian, and the cases as ONNX files.
prepare_peer() {
  case $(peer_of "$@") in
    ort | ort-cpu)
      type -P node >/dev/null || install_for_peer nodejs || true
      # (The folder of libonnx-testdata is an empty package `onnx` to Python.)
      python3 -c 'import numpy, onnx.helper' 2>/dev/null || install_for_peer python3-onnx python3-numpy || return 0
      python3 "$checkout/bench/ort_models.py" "$peers_dir/cases" "${@:2}" ||
        note "the cases cannot be made as ONNX files in $peers_dir/cases"
      ;;
    ggml)
      [[ -e $(echo /usr/libexec/*/llama.cpp-tests/test-backend-ops) && -e $(echo /usr/lib/*/ggml/*/libggml-vulkan.so) ]] ||
        install_for_peer llama.cpp-tests libggml0-backend-vulkan || true
      ;;
  esac
}

# install_for_peer PACKAGE...: only in the toolchain that ./rlx has made; a machine's own packages are its owner's affair.
install_for_peer() {
  local log=$peers_dir/apt.log install=(apt-get install -y --no-install-recommends "$@")
  if [[ ! ${RLX_IN_TOOLCHAIN-} ]]; then
    note "--peer needs these packages, and not all of them are installed: $*"
    return 1
  fi
  mkdir -p "$peers_dir"
  note "installing in the toolchain: $* (log: $log)"
  "${install[@]}" >"$log" 2>&1 </dev/null || { apt-get update && "${install[@]}"; } >>"$log" 2>&1 </dev/null || {
    note "apt-get cannot install $*: see $log"
    return 1
  }
}
