#!/usr/bin/env bash
# Serves the model of this bundle in the foreground. WEIGHTS names another copy of the weights, PYTHON the interpreter
# that has vLLM, HOST and PORT where it listens.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

weights=/srv/weights
weights="${WEIGHTS:-$weights}"

export HF_HUB_OFFLINE=1
export TRANSFORMERS_OFFLINE=1
export VLLM_NO_USAGE_STATS=1
export DO_NOT_TRACK=1
export X='a $HOME $(POD) "q" '"'"'q'"'"' \ `id` # y'

exec "${PYTHON:-python3}" local/vllm_launcher.py serve "$weights" --config vllm/config.yaml --host "${HOST:-0.0.0.0}" --port "${PORT:-9000}" --shutdown-timeout 45
