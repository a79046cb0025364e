#!/usr/bin/env python3
"""Races low precision against torch on one GPU, in one run.

usage: low_precision.py RACE_BINARY SHAPES_JSON OUT_JSON [ROUNDS] [ID ...]

Peers: torch._scaled_grouped_mm (rowwise scales), the dense torch._scaled_mm of the same FLOPs, three
torch._grouped_mm in BF16 for a whole layer, and a copy of 2 GiB for the bandwidth. As in race.py, every
round times each contender once, the L2 cache is flushed before every call, and medians are kept with
minimum and maximum.
"""
import json
import subprocess
import sys
import time

import torch
from race import BF16, Ours, summary, torch_time

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2

# Bytes that an element of X costs: read in BF16 once, and written in every copy.
FP8 = {"row": 3, "column": 3, "both": 4}
MXFP8 = {"codes": 1 + 1 / 32, "exact": 2}
NVFP4 = {"codes": 0.5 + 1 / 16, "exact": 2}
QUANTIZE = {f"{blocks}.{copies}": size for blocks in ("tensor", "vector") for copies, size in FP8.items()} | {
    f"{format}.{copies}.{form}": 2 + count * size
    for format, sizes in (("mxfp8", MXFP8), ("nvfp4", NVFP4), ("hadamard", NVFP4))
    for copies, count in (("row", 1), ("column", 1), ("both", 2))
    for form, size in sizes.items()
    if (format, copies) != ("hadamard", "row")
}


def scaled_peers(shape):
    """Callables by name; what torch refuses is left out when it is first called."""
    groups, rows, n, k, splits = (shape[key] for key in ("groups", "rows", "n", "k", "m_splits"))
    x, w = torch.randn(rows, k, device="cuda").to(E4M3), torch.randn(groups, n, k, device="cuda").to(E4M3)
    dy = torch.randn(rows, n, device="cuda").to(E4M3)
    ends = torch.tensor(splits, device="cuda").cumsum(0).to(torch.int32)
    ones = lambda *shape: torch.ones(*shape, device="cuda")
    one = torch.ones((), device="cuda")
    wt = w.transpose(1, 2).contiguous()  # [groups, k, n]: for dgrad, n runs along the reduction
    xt, dyt = x.t().contiguous(), dy.t().contiguous()

    def grouped(a, b, sa, sb, fast):
        return lambda: torch._scaled_grouped_mm(a, b, sa, sb, offs=ends, out_dtype=BF16, use_fast_accum=fast)

    def dense(a, b, fast):
        return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=BF16, use_fast_accum=fast)

    flat = lambda count: ones(groups * count)
    # torch wants every group's part of the reduction to be a multiple of 16 bytes.
    aligned = all(split % 16 == 0 for split in splits)
    return {
        "fprop": {
            "torch_grouped_fast": grouped(x, w.transpose(1, 2), ones(rows), ones(groups, n), True),
            "torch_grouped": grouped(x, w.transpose(1, 2), ones(rows), ones(groups, n), False),
            "torch_dense_fast": dense(x, w[0], True),
            "torch_dense": dense(x, w[0], False),
        },
        "dgrad": {
            "torch_grouped": grouped(dy, wt.transpose(1, 2), ones(rows), ones(groups, k), False),
            "torch_dense": dense(dy, wt[0], False),
        },
        "wgrad": {
            **({"torch_grouped": grouped(dyt, xt.t(), flat(n), flat(k), False)} if aligned else {}),
            "torch_dense": dense(dyt, xt, False),
        },
    }


def layer_peer(shape):
    groups, rows, n, k, splits = (shape[key] for key in ("groups", "rows", "n", "k", "m_splits"))
    x = torch.randn(rows, k, device="cuda", dtype=BF16)
    w = torch.randn(groups, n, k, device="cuda", dtype=BF16)
    dy = torch.randn(rows, n, device="cuda", dtype=BF16)
    ends = torch.tensor(splits, device="cuda").cumsum(0).to(torch.int32)

    def call():
        torch._grouped_mm(x, w.transpose(1, 2), offs=ends)
        torch._grouped_mm(dy, w, offs=ends)
        torch._grouped_mm(dy.t(), x, offs=ends)

    return call


def race(sides, rounds):
    """Times in turns; a side that fails says why.

    The card runs at its power limit, and the clock of a call depends on what ran before it. So each
    side is called twice in a row, and the second call counts.
    """
    times = {side: [] for side in sides}
    failed = {}
    for turn in range(rounds + 3):
        for side, call in sides.items():
            if side in failed:
                continue
            try:
                call()
                value = call()
            except Exception as error:  # torch's refusals have many types
                failed[side] = str(error).splitlines()[0][:120]
                continue
            if turn >= 3:
                times[side].append(value)
    return {side: values for side, values in times.items() if values}, failed


def main():
    binary, shapes, out = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 9
    wanted = set(sys.argv[5:])
    ours = Ours(binary)
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    a = torch.randn(8192, 8192, device="cuda", dtype=BF16)
    started = time.time()
    while time.time() - started < 3:  # reach the sustained clock first
        a @ a
    torch.cuda.synchronize()
    del a
    source = torch.empty(1 << 31, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copies = sorted(torch_time(lambda: target.copy_(source), flush) for _ in range(9))
    bandwidth = 2 * source.numel() / copies[4] / 1e6
    del source, target
    torch.cuda.empty_cache()
    smi = "nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw --format=csv,noheader"
    gpu = subprocess.run(smi.split(), capture_output=True, text=True).stdout.strip()
    results = {"torch": torch.__version__, "gpu": gpu, "rounds": rounds, "copy_TBs": bandwidth, "shapes": {}}
    print(f"copy {bandwidth:.2f} TB/s", gpu, flush=True)
    for shape in json.load(open(shapes)):
        if wanted and shape["id"] not in wanted:
            continue
        groups, rows, n, k = (shape[key] for key in ("groups", "rows", "n", "k"))
        flops = 2 * rows * n * k
        ours.ask("low {rows} {n} {k} ".format(**shape) + ",".join(map(str, shape["m_splits"])))
        row = results["shapes"][shape["id"]] = {}
        timed = lambda name: (lambda: float(ours.ask(f"time_low {name}")))
        # A second read, for magnitudes, is not counted.
        for name, size in QUANTIZE.items():
            times, _ = race({"ours": timed(f"quantize.{name}")}, rounds)
            us = sorted(times["ours"])[len(times["ours"]) // 2]
            rate = rows * k * size / us / 1e6
            row[f"quantize.{name}"] = {"us": us, "TBs": rate, "of_copy": rate / bandwidth}
            print(shape["id"], "quantize", name, f"{us:.1f} us {rate:.2f} TB/s {rate / bandwidth:.3f}", flush=True)
        times, _ = race({"ours": timed("quantize.square.both")}, rounds)
        us = sorted(times["ours"])[len(times["ours"]) // 2]
        rate = groups * n * k * 4 / us / 1e6
        row["quantize.square.both"] = {"us": us, "TBs": rate, "of_copy": rate / bandwidth}
        print(shape["id"], "quantize square.both", f"{us:.1f} us {rate / bandwidth:.3f}", flush=True)
        for name, peers in scaled_peers(shape).items():
            mine = ["fast", "tensor", "block"] if name == "fprop" else ["tensor", "block"]
            sides = {f"ours_{scaling}": timed(f"{name}.{scaling}") for scaling in mine}
            if name == "wgrad":
                sides["ours_block_f32"] = timed("wgrad_f32.block")
            sides.update({peer: (lambda call=call: torch_time(call, flush)) for peer, call in peers.items()})
            times, failed = race(sides, rounds)
            row[name] = {side: summary(values, flops) for side, values in times.items()} | {"failed": failed}
            print(shape["id"], name, {side: row[name][side]["tflops"] for side in times}, failed, flush=True)
        torch.cuda.empty_cache()
        sides = {recipe: timed(f"layer.{recipe}") for recipe in ("bf16", "current", "block", "mxfp8", "nvfp4")}
        peer = layer_peer(shape)
        sides["torch_bf16_gemms"] = lambda: torch_time(peer, flush)
        times, failed = race(sides, rounds)
        row["layer"] = {side: summary(values, 3 * flops) for side, values in times.items()} | {"failed": failed}
        base = row["layer"]["torch_bf16_gemms"]["us"]
        print(shape["id"], "layer", {side: round(base / row["layer"][side]["us"], 3) for side in times}, failed, flush=True)
        del peer
        torch.cuda.empty_cache()
        json.dump(results, open(out, "w"), indent=1)


if __name__ == "__main__":
    main()
