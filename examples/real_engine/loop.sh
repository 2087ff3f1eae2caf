#!/usr/bin/env bash
# The loop on a real engine without a GPU: measure three loads, keep them as anchors, project two that were not measured,
# measure those, and print the error.
#   loop.sh URL MODEL OUT            an engine that runs already, e.g. llama.cpp or vLLM on CPU with a small model
# Environment: INFERASIM (the program), ISL, OSL, REQUESTS (per client), ANCHOR_LOADS, TEST_LOADS, MODEL_CONFIG, ENGINE.
# The target file's figures are assumed; the anchors carry the projection to this machine.
set -euo pipefail
url=${1:?usage: loop.sh URL MODEL OUT} model=${2:?usage: loop.sh URL MODEL OUT} out=${3:?usage: loop.sh URL MODEL OUT}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
inferasim=${INFERASIM:-inferasim} isl=${ISL:-64} osl=${OSL:-24} per_client=${REQUESTS:-4}
anchor_loads=${ANCHOR_LOADS:-"1 2 4"} test_loads=${TEST_LOADS:-"3 2:2"}
config=${MODEL_CONFIG:-$here/config.json} engine=${ENGINE:-vllm}
mkdir -p "$out"

measure() { # measure NAME CONCURRENCY ISL OSL
  "$inferasim" measure --url "$url" --model "$model" --isl "$3" --osl "$4" --concurrency "$2" \
    --requests $(($2 * per_client)) --settle 0 --burn-in "$2" --timeout 300 --retries 50 --out "$out/$1" --overwrite >"$out/$1.txt"
}

figure() { # figure FILE KEY: the number at a dotted path of a JSON document
  python3 -c 'import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."):
    value = value[int(key)] if key.isdigit() else value[key]
print(value)' "$1" "$2"
}

for c in $anchor_loads; do
  measure "anchor-c$c" "$c" "$isl" "$osl"
  "$inferasim" anchor --anchors "$out/anchors" import "$out/anchor-c$c/summary.json" --id "c$c" --replace \
    --gpu two-cores --model "$config" --engine "$engine" --no-prefix-caching >/dev/null
done

printf '%-22s %10s %10s %8s   %10s %10s %8s\n' "not measured before" "TPOT ms" "measured" "error" "TTFT ms" "measured" "error"
for load in $test_loads; do
  # C, or C:F for prompts and answers F times as long.
  c=${load%%:*} factor=1
  case $load in *:*) factor=${load##*:} ;; esac
  name=test-c$c-x$factor
  # The lengths as the engine counts them, chat template included, come from its own run; the figures do not.
  measure "$name" "$c" $((isl * factor)) $((osl * factor))
  run=$out/$name/summary.json
  length() { python3 -c "print(max(1, round($(figure "$run" "points.0.metrics.$1.mean"))))"; }
  "$inferasim" project --target "$here/target.yaml" --model "$config" --engine "$engine" --tp 1 --concurrency "$c" \
    --isl "$(length isl)" --osl "$(length osl)" --anchors "$out/anchors" --json >"$out/$name.json"
  python3 - "$out/$name.json" "$run" "$c clients, $(length isl)/$(length osl)" <<'P'
import json, sys
projected, run = (json.load(open(path)) for path in sys.argv[1:3])
metrics = run["points"][0]["metrics"]
cells = []
for key in ("tpot_ms", "ttft_ms"):
    p, m = projected[key], metrics[key]["mean"]
    cells += [f"{p:10.2f}", f"{m:10.2f}", f"{100 * (p / m - 1):+7.1f} %"]
print(f"{sys.argv[3]:<22}", *cells[:3], "", *cells[3:])
P
done
