#!/usr/bin/env python3
"""Times layers the way that TransformerEngine's were timed, beside three products of torch.

docs/benchmarks.md, "Layers, timed as TransformerEngine's were", says which way, and has the results.

usage: te_method.py RACE_BINARY OUT_JSON [SHAPE ...]

One implementation after the other, each with 3 warm-ups and 30 single calls behind a pause, of which the
median counts, and 30 calls in a row ("loop"). Torch's pause is a kernel that sleeps, or the host's sleep,
as ours is; both are timed. The parts of each layer are timed alone. SHAPE is one of the names below, "-z"
behind it: Zipf splits.
"""
import json
import random
import statistics
import subprocess
import sys
import time

import torch
from race import BF16, Ours

SHAPES = {
    "e8": (8, 32768, 4096, 7168),
    "e32": (32, 32768, 4096, 7168),
    "e64": (64, 32768, 2048, 2048),
    "e8n": (8, 16384, 14336, 4096),
    "e8k": (8, 16384, 4096, 14336),
    "e128": (128, 32768, 1536, 2048),
}
CALLS = 30
PAUSES = {"0.2ms": 200, "2ms": 2000, "10ms": 10000}
# Clock cycles of a millisecond: `_sleep` counts those of the multiprocessors.
CYCLES = 1_980_000


def splits_of(groups, rows, zipf):
    """Shares of 1 / rank in multiples of 128, the last eighth of the experts without rows, dealt out."""
    if not zipf:
        return [rows // groups] * groups
    live = groups - max(1, groups // 8)
    weights = [1 / (rank + 1) for rank in range(live)]
    blocks = rows // 128
    counts = [round(blocks * weight / sum(weights)) for weight in weights]
    counts[0] += blocks - sum(counts)
    counts = [128 * count for count in counts] + [0] * (groups - live)
    random.Random(7).shuffle(counts)
    return counts


def torch_alone(call, flush, pause, sleeping_kernel):
    times = []
    for turn in range(CALLS + 3):
        if sleeping_kernel:
            torch.cuda._sleep(pause * CYCLES // 1000)
        else:
            time.sleep(pause / 1e6)
            flush.zero_()
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        call()
        end.record()
        end.synchronize()
        if turn >= 3:
            times.append(start.elapsed_time(end) * 1e3)
    return statistics.median(times)


def torch_loop(call):
    for _ in range(3):
        call()
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / CALLS


def products(groups, rows, n, k, splits):
    x, dy = (torch.randn(rows, width, device="cuda", dtype=BF16) for width in (k, n))
    w = torch.randn(groups, n, k, device="cuda", dtype=BF16) * k**-0.5
    ends = torch.tensor(splits, device="cuda").cumsum(0).to(torch.int32)
    return [
        lambda: torch._grouped_mm(x, w.transpose(1, 2), offs=ends),
        lambda: torch._grouped_mm(dy, w, offs=ends),
        lambda: torch._grouped_mm(dy.t(), x, offs=ends),
    ]


# The parts of a layer, as it makes them: X, W and dY quantized, three products.
PARTS = {
    "current": ("quantize.tensor.both", "quantize_w.tensor", "quantize_dy.tensor")
    + ("fprop.fast", "dgrad.tensor", "wgrad.tensor"),
    "block": ("quantize.vector.both", "quantize_w.block", "quantize_dy.block")
    + ("fprop.block", "dgrad.block", "wgrad.block"),
}


def main():
    binary, out = sys.argv[1:3]
    names = sys.argv[3:] or [name + zipf for name in SHAPES for zipf in ("", "-z")]
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    ours = Ours(binary)
    smi = "nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw --format=csv,noheader"
    print(subprocess.run(smi.split(), capture_output=True, text=True).stdout.strip(), flush=True)
    results = {}
    for name in names:
        groups, rows, n, k = SHAPES[name.removesuffix("-z")]
        splits = splits_of(groups, rows, name.endswith("-z"))
        row = results[name] = {}
        calls = products(groups, rows, n, k, splits)

        def all_three():
            for call in calls:
                call()

        sides = {"torch": [all_three], "torch sum": calls}
        for pause, us in PAUSES.items():
            for side, parts in sides.items():
                row[f"{side} {pause}"] = sum(torch_alone(call, flush, us, True) for call in parts)
            row[f"torch {pause} host"] = torch_alone(all_three, flush, us, False)
        row["torch loop"] = torch_loop(all_three)
        row["torch sum loop"] = sum(torch_loop(call) for call in calls)
        del calls, sides
        torch.cuda.empty_cache()
        ours.ask(f"low {rows} {n} {k} " + ",".join(map(str, splits)))
        for recipe in ("bf16", "current", "block"):
            for pause, us in PAUSES.items():
                answer = ours.ask(f"alone layer.{recipe} {us} {CALLS}")
                row[f"{recipe} {pause}"] = statistics.median(map(float, answer.split()))
            row[f"{recipe} loop"] = float(ours.ask(f"loop layer.{recipe} {CALLS}"))
        print(name, " ".join(f"{key.replace(' ', '_')}={value:.0f}" for key, value in row.items()), flush=True)
        for pause in (*PAUSES, "loop"):
            base = row[f"torch sum {pause}"]
            ratios = {recipe: round(base / row[f"{recipe} {pause}"], 3) for recipe in ("bf16", "current", "block")}
            print(name, pause, ratios, flush=True)
        for recipe, parts in PARTS.items():
            ask = lambda part: ours.ask(f"alone {part} {PAUSES['10ms']} 10").split()
            times = {part: statistics.median(map(float, ask(part))) for part in parts}
            row[f"{recipe} parts"] = times
            print(name, recipe, {part: round(us) for part, us in times.items()}, round(sum(times.values())), flush=True)
        json.dump(results, open(out, "w"), indent=1)


if __name__ == "__main__":
    main()
