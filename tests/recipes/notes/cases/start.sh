#!/usr/bin/env bash
set -euo pipefail
source ./common.sh

MODEL="Qwen/Qwen3-8B"   # the checkpoint
TP=2
export CUDA_VISIBLE_DEVICES=0,1
export SGLANG_ENABLE_SPEC_V2=1
ARGS=(--tp-size "$TP" --mem-fraction-static 0.85 --reasoning-parser qwen3)
if [[ -n "${DEBUG:-}" ]]; then
  LEVEL=debug
fi

cat <<'EOF' > /etc/motd
python -m sglang.launch_server --model-path from/a-here-document
EOF

start() {
  local port=30000
  exec env NCCL_DEBUG=WARN python3 -m sglang.launch_server --model-path "$MODEL" \
    "${ARGS[@]}" --port "$port" --log-level $LEVEL \
    --dist-init-addr "$(hostname):5000" --watchdog-timeout `cat limit` 2>&1 | tee -a server.log
}
start "$@"
