#!/usr/bin/env bash
# Three load generators against one loopback server with known emission times, one after the other on the same machine:
# `inferasim measure`, AIPerf and guidellm. The first token comes 200 ms after a request, one every 20 ms, 50 in all.
#   run.sh OUT                       prints the table and leaves every tool's own result and the server's stamps in OUT
# Needs release builds (`cargo build --release --bin inferasim --example stream_server`) and both peers, each in its own
# environment: `python3 -m venv A && A/bin/pip install aiperf==0.13.0`, likewise guidellm==0.8.1.
# Environment: INFERASIM, STREAM_SERVER, AIPERF, GUIDELLM (the programs; an empty one is left out), STREAMS, PER_STREAM
# (requests each stream sends), RUN (a prefix for server and clients alike, e.g. "chrt -r 1").
set -euo pipefail
out=${1:?usage: run.sh OUT}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
inferasim=${INFERASIM-inferasim} server=${STREAM_SERVER:-stream_server} aiperf=${AIPERF-} guidellm=${GUIDELLM-}
streams=${STREAMS:-"50 500"} per_stream=${PER_STREAM:-5} port=${PORT:-8190}
read -ra run <<<"${RUN-}"
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Both peers count tokens with a Hugging Face tokenizer, even where the server's own counts are used.
tokenizer=$out/tokenizer
if [ ! -s "$tokenizer/tokenizer.json" ]; then
  for python in "${aiperf:+$(dirname "$aiperf")/python3}" "${guidellm:+$(dirname "$guidellm")/python3}"; do
    [ -n "$python" ] && "$python" "$here/tokenizer.py" "$tokenizer" && break
  done
fi

load() { # load TOOL STREAMS REQUESTS FOLDER
  local url=http://127.0.0.1:$port
  case $1 in
    inferasim)
      "${run[@]}" "$inferasim" measure --url "$url" --model any --isl 100 --osl 50 --concurrency "$2" --requests "$3" \
        --settle 0 --burn-in 0 --metrics off --out "$4/own" --overwrite ;;
    aiperf)
      "${run[@]}" "$aiperf" profile --model any --url "$url" --endpoint-type chat --streaming --tokenizer "$tokenizer" \
        --use-server-token-count --synthetic-input-tokens-mean 100 --synthetic-input-tokens-stddev 0 \
        --output-tokens-mean 50 --output-tokens-stddev 0 --concurrency "$2" --request-count "$3" --ui-type none \
        --output-artifact-dir "$4/own" ;;
    guidellm)
      "${run[@]}" "$guidellm" run --backend "kind=openai_http,target=$url,model=any" \
        --profile "kind=concurrent,streams=$2" --constraint "kind=max_requests,count=$3" \
        --data kind=synthetic_text,prompt_tokens=100,output_tokens=50 \
        --tokenizer "kind=huggingface_auto,model=$tokenizer" --output "kind=json,path=$4/own.json" ;;
  esac
}

for n in $streams; do
  for tool in ${inferasim:+inferasim} ${aiperf:+aiperf} ${guidellm:+guidellm}; do
    folder=$out/$tool-$n
    rm -rf "$folder"
    mkdir -p "$folder"
    port=$((port + 1))
    cat /proc/loadavg >"$folder/loadavg" 2>/dev/null || true
    # The server writes its stamps when its standard input closes.
    mkfifo "$folder/stop"
    "${run[@]}" "$server" "$port" 200 20 50 "$folder/server.jsonl" <"$folder/stop" 2>/dev/null &
    serving=$!
    exec {stop}>"$folder/stop"
    for _ in $(seq 100); do (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break || sleep 0.1; done
    load "$tool" "$n" $((n * per_stream)) "$folder" >"$folder/output.txt" 2>&1 || echo "$tool at $n streams: exit code $?" >&2
    exec {stop}>&-
    wait "$serving"
  done
done
python3 "$here/table.py" "$out"
