#!/usr/bin/env bash
# on_simulated_gpu.sh RLX DEVICE PROGRAM [ARGUMENT...]: runs a program that sees this device of `rlx gpu-report` and no other.
set -euo pipefail
if ! variables=$("$1" gpu-report --device "$2" --environment 2>&1); then
  printf 'missing: %s\n' "${variables#rlx: }"
  exit 0
fi
mapfile -t variables <<<"$variables"
exec env "${variables[@]}" RLX_TEST_GPU="$2" RLX_WGPU_DUMP_WGSL= "${@:3}"
