#!/usr/bin/env python3
"""Compiles the kernels of this folder to PTX for sm_100a. No GPU is needed.

    python3 -m venv venv && venv/bin/pip install triton==3.7.1
    venv/bin/python generate.py [PTXAS]

Writes one `.ptx` for each kernel, and to the standard output what a launch needs to know and the
PTX does not say. With the path of a `ptxas`, each text is also assembled. With Triton 3.6.0 it
writes `matmul_pair.ptx`, and nothing else.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FOLDER = pathlib.Path(__file__).resolve().parent
# Version 3.9.0 reads the registers of tcgen05.ld before the wait.
VERSION = "3.7.1"
# Later ones let each block of a pair multiply alone.
PAIR_VERSION = "3.6.0"


@triton.jit
def origin(index, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """First row and column of a tile of the output."""
    tiles_n = tl.cdiv(columns, BLOCK_N)
    return index // tiles_n * BLOCK_M, index % tiles_n * BLOCK_N


@triton.jit
def matmul(a, b, c, scale, rows, columns, depth, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
           BLOCK_K: tl.constexpr, TRANSPOSED: tl.constexpr):
    """c = scale · a · b, all of them tensor maps; b is [columns, depth] if TRANSPOSED."""
    m, n = origin(tl.program_id(0), columns, BLOCK_M, BLOCK_N)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, depth, BLOCK_K):
        if TRANSPOSED:
            sums = tl.dot(a.load([m, k]), b.load([n, k]).T, sums)
        else:
            sums = tl.dot(a.load([m, k]), b.load([k, n]), sums)
    c.store([m, n], (sums * scale).to(c.dtype))


@triton.jit
def matmul_specialised(a, b, c, rows, columns, depth, BLOCK_M: tl.constexpr,
                       BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a · bᵀ with loads, products and output in warps of their own; several tiles a program."""
    tiles = tl.cdiv(rows, BLOCK_M) * tl.cdiv(columns, BLOCK_N)
    for index in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True,
                          warp_specialize=True):
        m, n = origin(index, columns, BLOCK_M, BLOCK_N)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in tl.range(0, depth, BLOCK_K):
            sums = tl.dot(a.load([m, k]), b.load([n, k]).T, sums)
        c.store([m, n], sums.to(tl.bfloat16))


@triton.jit
def tile_of_scales(scales, row, block, ROWS: tl.constexpr, BLOCKS: tl.constexpr):
    """Scales of ROWS rows and BLOCKS blocks along the depth, out of tiles of 128 × 4."""
    tile = scales.load([0, row // 128, block // 4, 0, 0])
    tile = tile.reshape(ROWS // 128, BLOCKS // 4, 32, 4, 4).trans(0, 3, 2, 1, 4)
    return tile.reshape(ROWS, BLOCKS)


@triton.jit
def matmul_scaled(a, b, c, scales_a, scales_b, rows, columns, depth, BLOCK_M: tl.constexpr,
                  BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FORMAT: tl.constexpr,
                  VECTOR: tl.constexpr, PER_BYTE: tl.constexpr):
    """c = a · bᵀ with a scale for each VECTOR elements along the depth."""
    m, n = origin(tl.program_id(0), columns, BLOCK_M, BLOCK_N)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, depth, BLOCK_K):
        left = tile_of_scales(scales_a, m, k // VECTOR, BLOCK_M, BLOCK_K // VECTOR)
        right = tile_of_scales(scales_b, n, k // VECTOR, BLOCK_N, BLOCK_K // VECTOR)
        x = a.load([m, k // PER_BYTE])
        y = b.load([n, k // PER_BYTE]).T
        sums = tl.dot_scaled(x, left, FORMAT, y, right, FORMAT, sums)
    c.store([m, n], sums.to(tl.bfloat16))


@triton.jit
def matmul_pointers(a, b, c, rows, columns, depth, BLOCK_M: tl.constexpr,
                    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a · b through plain pointers, in halves to singles."""
    m, n = origin(tl.program_id(0), columns, BLOCK_M, BLOCK_N)
    m = m + tl.arange(0, BLOCK_M)
    n = n + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_at = a + m[:, None] * depth + k[None, :]
    b_at = b + k[:, None] * columns + n[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in tl.range(0, depth, BLOCK_K):
        left = (m[:, None] < rows) & (k[None, :] < depth - start)
        right = (k[:, None] < depth - start) & (n[None, :] < columns)
        sums = tl.dot(tl.load(a_at, left, 0.0), tl.load(b_at, right, 0.0), sums)
        a_at += BLOCK_K
        b_at += BLOCK_K * columns
    inside = (m[:, None] < rows) & (n[None, :] < columns)
    tl.store(c + m[:, None] * columns + n[None, :], sums, inside)


@triton.jit
def softmax(x, y, stride, columns, BLOCK: tl.constexpr):
    """The softmax of each row."""
    row = tl.program_id(0).to(tl.int64) * stride
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row + at, at < columns, -float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + row + at, value / tl.sum(value, 0), at < columns)


@triton.jit
def attention(q, k, v, out, scale, length, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              WIDTH: tl.constexpr, SPECIALISED: tl.constexpr):
    """softmax(scale · q · kᵀ) · v for one head, a block of keys at a time."""
    first = tl.program_id(0) * BLOCK_M
    query = q.load([first, 0])
    greatest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    sums = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    for start in tl.range(0, length, BLOCK_N, warp_specialize=SPECIALISED):
        score = tl.dot(query, k.load([start, 0]).T) * scale
        key = start + tl.arange(0, BLOCK_N)
        score = tl.where(key[None, :] < length, score, -float("inf"))
        higher = tl.maximum(greatest, tl.max(score, 1))
        weight = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(greatest - higher)
        total = total * shrink + tl.sum(weight, 1)
        sums = sums * shrink[:, None]
        sums = tl.dot(weight.to(tl.bfloat16), v.load([start, 0]), sums)
        greatest = higher
    out.store([first, 0], (sums / total[:, None]).to(tl.bfloat16))


def tiles(m, n, k):
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}


def descriptor(element, *sizes):
    return f"tensordesc<{element}[{', '.join(map(str, sizes))}]>"


def warps(warps, stages):
    return {"num_warps": warps, "num_stages": stages}


SIZES = {"rows": "i32", "columns": "i32", "depth": "i32"}


def matrices(element, m, n, k, transposed=True, output="bf16", scale=True):
    """Types of the arguments of a product with tensor maps."""
    right = descriptor(element, n, k) if transposed else descriptor(element, k, n)
    factor = {"scale": "fp32"} if scale else {}
    left = {"a": descriptor(element, m, k), "b": right, "c": descriptor(output, m, n)}
    return left | factor | SIZES


def scaled(element, depth, per_byte, scale, vector):
    """Types and constants of a product with scales."""
    codes = descriptor(element, 128, depth // per_byte)
    scales = descriptor(scale, 1, 1, depth // vector // 4, 2, 256)
    types = {"a": codes, "b": codes, "c": descriptor("bf16", 128, 128),
             "scales_a": scales, "scales_b": scales}
    own = {"FORMAT": "e4m3" if per_byte == 1 else "e2m1", "VECTOR": vector, "PER_BYTE": per_byte}
    return types | SIZES, tiles(128, 128, depth) | own


def kernels():
    """File, function, types of the arguments in order, constants, options."""
    along, across = {"TRANSPOSED": True}, {"TRANSPOSED": False}
    halves = {"a": "*fp16", "b": "*fp16", "c": "*fp32", **SIZES}
    rows = {"x": "*fp32", "y": "*fp32", "stride": "i32", "columns": "i32"}
    query, keys = descriptor("bf16", 128, 64), descriptor("bf16", 64, 64)
    heads = {"q": query, "k": keys, "v": keys, "out": query, "scale": "fp32", "length": "i32"}
    blocks = {"BLOCK_M": 128, "BLOCK_N": 64, "WIDTH": 64}
    return [
        ("matmul_bf16", matmul, matrices("bf16", 128, 64, 64, transposed=False),
         tiles(128, 64, 64) | across, warps(4, 3)),
        ("matmul_bf16_low", matmul, matrices("bf16", 64, 64, 64), tiles(64, 64, 64) | along,
         warps(4, 2)),
        ("matmul_bf16_specialised", matmul_specialised,
         matrices("bf16", 128, 64, 64, scale=False), tiles(128, 64, 64), warps(4, 3)),
        ("matmul_tf32", matmul, matrices("fp32", 128, 64, 32, output="fp32"),
         tiles(128, 64, 32) | along, warps(4, 2)),
        ("matmul_fp8", matmul, matrices("fp8e4nv", 128, 128, 128),
         tiles(128, 128, 128) | along, warps(8, 3)),
        ("matmul_fp8_across", matmul, matrices("fp8e4nv", 128, 64, 128, transposed=False),
         tiles(128, 64, 128) | across, warps(4, 2)),
        ("matmul_mxfp8", matmul_scaled, *scaled("fp8e4nv", 128, 1, "u8", 32), warps(8, 2)),
        ("matmul_mxfp4", matmul_scaled, *scaled("u8", 256, 2, "u8", 32), warps(8, 2)),
        ("matmul_nvfp4", matmul_scaled, *scaled("u8", 256, 2, "fp8e4nv", 16), warps(8, 2)),
        ("matmul_pointers", matmul_pointers, halves, tiles(128, 64, 32), warps(4, 2)),
        ("matmul_pair", matmul_pointers, halves, tiles(256, 64, 32),
         warps(4, 2) | {"num_ctas": 2}),
        ("softmax", softmax, rows, {"BLOCK": 1024}, warps(4, 1)),
        ("attention", attention, heads, blocks | {"SPECIALISED": False}, warps(4, 1)),
        ("attention_specialised", attention, heads, blocks | {"SPECIALISED": True}, warps(4, 2)),
    ]


def compile_kernel(function, signature, constants, options):
    knobs.compilation.always_compile = True
    knobs.compilation.disable_line_info = True
    types = signature | {name: "constexpr" for name in constants}
    # Pointers and row lengths are multiples of 16, which is what lets Triton use wide accesses.
    multiples = [
        (position,)
        for position, (name, kind) in enumerate(types.items())
        if kind.startswith("*") or (function is matmul_pointers and name in ("columns", "depth"))
        or name == "stride"
    ]
    attributes = {position: [["tt.divisibility", 16]] for position in multiples}
    source = ASTSource(function, types, constants, attributes)
    # The oldest version of PTX that has all of it; more drivers can load that.
    options = options | {"ptx_version": 87, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", 100, 32), options=options)


def clean(text):
    """Debug sections and blanks at the ends of lines out."""
    section = r"^\s*\.section\s+\.debug_\w+\s*\{.*?^\s*\}\n"
    text = re.sub(section, "", text, flags=re.M | re.S)
    text = re.sub(r"[ \t]+$", "", text, flags=re.M)
    return text.rstrip() + "\n"


def main():
    if triton.__version__ not in (VERSION, PAIR_VERSION):
        sys.exit(f"this needs Triton {VERSION} or {PAIR_VERSION}, not {triton.__version__}")
    for name, function, signature, constants, options in kernels():
        if (triton.__version__ == PAIR_VERSION) != (name == "matmul_pair"):
            continue
        kernel = compile_kernel(function, signature, constants, options)
        path = FOLDER / f"{name}.ptx"
        path.write_text(clean(kernel.asm["ptx"]))
        own = kernel.metadata
        threads = re.search(r"\.reqntid (\d+)", kernel.asm["ptx"])[1]
        print(f"{name}: threads {threads} dynamic_shared {own.shared} "
              f"num_ctas {own.num_ctas} global_scratch {own.global_scratch_size} "
              f"align {own.global_scratch_align} profile_scratch {own.profile_scratch_size}")
        for meta in own.tensordesc_meta or []:
            print(f"    {meta}")
        if len(sys.argv) > 1:
            with tempfile.NamedTemporaryFile(suffix=".cubin") as output:
                subprocess.run([sys.argv[1], "-arch=sm_100a", path, "-o", output.name], check=True)


main()
