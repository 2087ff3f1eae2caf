"""The table of run.sh: what each tool reports beside what the server stamped. Times in ms, throughput in tokens/s."""
import glob, json, os, statistics as st, sys


def lines(path):
    return [json.loads(line) for line in open(path)]


def p99(values):
    values = sorted(values)
    return values[-(-len(values) * 99 // 100) - 1]


def served(folder, seen):
    """The server's own figures of the requests the tool counted; a tool without request ids counted all whole ones."""
    whole = [r for r in lines(f"{folder}/server.jsonl") if len(r["writes_unix_ns"]) >= 50]
    whole = [r for r in whole if not seen or r["request_id"] in seen]
    first = [(r["writes_unix_ns"][0] - r["received_unix_ns"]) / 1e6 for r in whole]
    tpot = [(r["writes_unix_ns"][49] - r["writes_unix_ns"][0]) / 49e6 for r in whole]
    span = (max(r["writes_unix_ns"][-1] for r in whole) - min(r["received_unix_ns"] for r in whole)) / 1e9
    return whole, first, tpot, 50 * len(whole) / span


def own(folder):
    """TTFT, TPOT by (latency - TTFT)/49, output tokens/s, failures, and per request id when its first token was seen."""
    if os.path.exists(f"{folder}/own/summary.json"):
        point = json.load(open(f"{folder}/own/summary.json"))["points"][0]
        ok = [r for r in lines(glob.glob(f"{folder}/own/*/requests.jsonl")[0]) if r["population"] == "ok"]
        seen = {r["request_id"]: r["start_unix_ns"] + r["ttft_ms"] * 1e6 for r in ok}
        failed = sum(point["requests"][key] for key in ("failed", "incomplete", "not_sent"))
        return [r["ttft_ms"] for r in ok], [r["tpot_ms"] for r in ok], point["system"]["output_tok_s"], failed, seen
    if os.path.exists(f"{folder}/own/profile_export.jsonl"):
        rows = lines(f"{folder}/own/profile_export.jsonl")
        ok = [r for r in rows if not r.get("error")]
        value = lambda r, key: r["metrics"][key]["value"]
        seen = {r["metadata"]["x_request_id"]: r["metadata"]["request_start_ns"] + value(r, "time_to_first_token") * 1e6
                for r in ok}
        rate = json.load(open(f"{folder}/own/profile_export_aiperf.json"))["output_token_throughput"]["avg"]
        ttft = [value(r, "time_to_first_token") for r in ok]
        return ttft, [value(r, "inter_token_latency") for r in ok], rate, len(rows) - len(ok), seen
    run = json.load(open(f"{folder}/own.json"))["benchmarks"][0]
    ok = run["requests"]["successful"]
    failed = len(run["requests"]["errored"]) + len(run["requests"]["incomplete"])
    rate = run["metrics"]["output_tokens_per_second"]["successful"]["mean"]
    return [r["time_to_first_token_ms"] for r in ok], [r["inter_token_latency_ms"] for r in ok], rate, failed, {}


root = sys.argv[1]
print("| streams | tool | requests | TTFT mean, p99 | server's own | TPOT | server's | tok/s | server's | "
      "first token seen after its write, mean, p99 | failed |")
print("|" + "---|" * 11)
folders = glob.glob(f"{root}/*-*/server.jsonl")
order = ["inferasim", "aiperf", "guidellm"]
for path in sorted(folders, key=lambda p: (int(p.split("/")[-2].split("-")[1]), order.index(p.split("/")[-2].split("-")[0]))):
    folder = os.path.dirname(path)
    tool, streams = os.path.basename(folder).split("-")
    try:
        ttft, tpot, rate, failed, seen = own(folder)
        whole, first, server_tpot, server_rate = served(folder, seen)
    except (OSError, KeyError, ValueError) as problem:
        print(f"| {streams} | {tool} | no result: {problem!r} |" + " |" * 8)
        continue
    late = [(seen[r["request_id"]] - r["writes_unix_ns"][0]) / 1e6 for r in whole if seen]
    after = f"{st.mean(late):.2f}, {p99(late):.2f}" if late else "no request ids"
    print(f"| {streams} | {tool} | {len(ttft)} | {st.mean(ttft):.2f}, {p99(ttft):.2f} | {st.mean(first):.2f}, {p99(first):.2f} "
          f"| {st.mean(tpot):.3f} | {st.mean(server_tpot):.3f} | {rate:.1f} ({100 * (rate / server_rate - 1):+.2f} %) "
          f"| {server_rate:.1f} | {after} | {failed} |")
