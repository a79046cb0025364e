#!/usr/bin/env python3
"""Races this library against torch on one GPU, in one run.

usage: race.py RACE_BINARY SHAPES_JSON OUT_JSON [ROUNDS] [ID ...]

Every round times each contender once, alternating; inputs are normal random numbers, the L2 cache is
flushed before every call, medians are kept with minimum and maximum. SHAPES_JSON is a list of
{"id", "groups", "rows", "n", "k", "m_splits"}.
"""
import json
import statistics
import subprocess
import sys
import time

import torch

BF16 = torch.bfloat16


class Ours:
    """The Rust side, over a pipe."""

    def __init__(self, binary):
        self.process = subprocess.Popen([binary, "--bench"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer or answer.startswith(("error", "race:")):
            raise RuntimeError(f"{request[:60]}: {answer}")
        return answer


def torch_time(call, flush):
    flush.zero_()
    torch.cuda._sleep(2_000_000)  # hides the launch
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def contenders(shape):
    groups, rows, n, k, splits = (shape[key] for key in ("groups", "rows", "n", "k", "m_splits"))
    x = torch.randn(rows, k, device="cuda", dtype=BF16)
    w = torch.randn(groups, n, k, device="cuda", dtype=BF16) * k**-0.5
    dy = torch.randn(rows, n, device="cuda", dtype=BF16)
    ends = torch.tensor(splits, device="cuda").cumsum(0).to(torch.int32)
    return {
        "fprop": (
            lambda: torch._grouped_mm(x, w.transpose(1, 2), offs=ends),
            lambda: torch.mm(x, w[0].t()),
        ),
        "dgrad": (
            lambda: torch._grouped_mm(dy, w, offs=ends),
            lambda: torch.mm(dy, w[0]),
        ),
        "wgrad": (
            lambda: torch._grouped_mm(dy.t(), x, offs=ends),
            lambda: torch.mm(dy.t(), x),
        ),
    }


def summary(times, flops):
    median = statistics.median(times)
    return {"us": median, "min": min(times), "max": max(times), "tflops": round(flops / median / 1e6, 1)}


def main():
    binary, shapes, out = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 15
    wanted = set(sys.argv[5:])
    ours = Ours(binary)
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    smi = "nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw --format=csv,noheader"
    a = torch.randn(8192, 8192, device="cuda", dtype=BF16)
    started = time.time()
    while time.time() - started < 3:  # reach the sustained clock first
        a @ a
    torch.cuda.synchronize()
    del a
    gpu = subprocess.run(smi.split(), capture_output=True, text=True).stdout.strip()
    results = {"torch": torch.__version__, "gpu": gpu, "rounds": rounds, "shapes": {}}
    for shape in json.load(open(shapes)):
        if wanted and shape["id"] not in wanted:
            continue
        flops = 2 * shape["rows"] * shape["n"] * shape["k"]
        ours.ask("shape {rows} {n} {k} ".format(**shape) + ",".join(map(str, shape["m_splits"])))
        row = results["shapes"][shape["id"]] = {}
        for name, (grouped, dense) in contenders(shape).items():
            error = float(ours.ask(f"check {name}"))
            sides = {
                "ours": lambda: float(ours.ask(f"time {name}")),
                "torch_grouped": lambda: torch_time(grouped, flush),
                "torch_dense": lambda: torch_time(dense, flush),
            }
            if name == "wgrad":
                sides["ours_f32_accumulate"] = lambda: float(ours.ask("time wgrad_f32"))
            times = {side: [] for side in sides}
            for turn in range(rounds + 3):
                for side, call in sides.items():
                    value = call()
                    if turn >= 3:
                        times[side].append(value)
            row[name] = {side: summary(values, flops) for side, values in times.items()}
            ratio = row[name]["torch_grouped"]["us"] / row[name]["ours"]["us"]
            row[name].update(ratio_to_grouped=round(ratio, 3), worst_error=error)
            tflops = {side: row[name][side]["tflops"] for side in sides}
            print(shape["id"], name, tflops, f"ratio {ratio:.3f}", f"error {error:.1e}", flush=True)
        torch.cuda.empty_cache()
        json.dump(results, open(out, "w"), indent=1)


if __name__ == "__main__":
    main()
