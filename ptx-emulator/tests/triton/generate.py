#!/usr/bin/env python3
"""Compiles the kernels of this folder to PTX for sm_90a. No GPU is needed.

    python3 -m venv venv && venv/bin/pip install triton==3.9.0
    venv/bin/python generate.py [PTXAS]

Writes one `.ptx` for each kernel, and to the standard output what a launch needs to know and the
PTX does not say. With the path of a `ptxas`, each text is also assembled.
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
VERSION = "3.9.0"


@triton.jit
def tile_of(index, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Walks the tiles of the output in groups of four rows of tiles."""
    tiles_n = tl.cdiv(columns, BLOCK_N)
    group = index // (4 * tiles_n)
    first = group * 4
    height = min(tl.cdiv(rows, BLOCK_M) - first, 4)
    within = index % (4 * tiles_n)
    return (first + within % height) * BLOCK_M, within // height * BLOCK_N


@triton.jit
def matmul_bf16(a, b, c, rows, columns, depth, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                BLOCK_K: tl.constexpr):
    """c = a · b, all of them tensor maps made by the host; b is row-major [depth, columns]."""
    m, n = tile_of(tl.program_id(0), rows, columns, BLOCK_M, BLOCK_N)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, depth, BLOCK_K):
        sums = tl.dot(a.load([m, k]), b.load([k, n]), sums)
    c.store([m, n], sums.to(tl.bfloat16))


@triton.jit
def matmul_bf16_persistent(a, b, c, rows, columns, depth, BLOCK_M: tl.constexpr,
                           BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a · bᵀ with one loop over tiles and depth; b is [columns, depth]."""
    tiles = tl.cdiv(rows, BLOCK_M) * tl.cdiv(columns, BLOCK_N)
    for index in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        m, n = tile_of(index, rows, columns, BLOCK_M, BLOCK_N)
        sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in tl.range(0, depth, BLOCK_K):
            sums = tl.dot(a.load([m, k]), b.load([n, k]).T, sums)
        c.store([m, n], sums.to(tl.bfloat16))


@triton.jit
def matmul_bf16_specialised(a, b, c, rows, columns, depth, BLOCK_M: tl.constexpr,
                            BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a · bᵀ, the loads in warps of their own."""
    m, n = tile_of(tl.program_id(0), rows, columns, BLOCK_M, BLOCK_N)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, depth, BLOCK_K, warp_specialize=True):
        sums = tl.dot(a.load([m, k]), b.load([n, k]).T, sums)
    c.store([m, n], sums.to(tl.bfloat16))


@triton.jit
def matmul_bf16_device_descriptor(a_base, b_base, c_base, rows, columns, depth,
                                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                                  BLOCK_K: tl.constexpr):
    """c = a · bᵀ with tensor maps that the kernel writes itself."""
    a = tl.make_tensor_descriptor(a_base, [rows, depth], [depth, 1], [BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_base, [columns, depth], [depth, 1], [BLOCK_N, BLOCK_K])
    c = tl.make_tensor_descriptor(c_base, [rows, columns], [columns, 1], [BLOCK_M, BLOCK_N])
    m, n = tile_of(tl.program_id(0), rows, columns, BLOCK_M, BLOCK_N)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, depth, BLOCK_K):
        sums = tl.dot(a.load([m, k]), b.load([n, k]).T, sums)
    c.store([m, n], sums.to(tl.bfloat16))


@triton.jit
def matmul_fp8(a, b, c, scale, rows, columns, depth, BLOCK_M: tl.constexpr,
               BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, IMPRECISE: tl.constexpr):
    """c = scale · a · bᵀ for e4m3. The tensor cores sum at most IMPRECISE products, if given."""
    m, n = tile_of(tl.program_id(0), rows, columns, BLOCK_M, BLOCK_N)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, depth, BLOCK_K):
        sums = tl.dot(a.load([m, k]), b.load([n, k]).T, sums, max_num_imprecise_acc=IMPRECISE)
    c.store([m, n], (sums * scale).to(tl.bfloat16))


@triton.jit
def matmul_pointers(a, b, c, rows, columns, depth, BLOCK_M: tl.constexpr,
                    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c = a · b through plain pointers, in halves to singles."""
    m, n = tile_of(tl.program_id(0), rows, columns, BLOCK_M, BLOCK_N)
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
def layer_norm(x, y, weight, bias, mean, rstd, stride, columns, epsilon, BLOCK: tl.constexpr):
    """Layer normalisation of each row of halves, which may be longer than a block."""
    row = tl.program_id(0).to(tl.int64)
    x += row * stride
    y += row * stride
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(x + at, at < columns, 0.0).to(tl.float32)
    average = tl.sum(sums, 0) / columns
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, at < columns, 0.0).to(tl.float32)
        value = tl.where(at < columns, value - average, 0.0)
        squares += value * value
    factor = 1 / tl.sqrt(tl.sum(squares, 0) / columns + epsilon)
    tl.store(mean + row, average)
    tl.store(rstd + row, factor)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        value = (tl.load(x + at, inside, 0.0).to(tl.float32) - average) * factor
        value = value * tl.load(weight + at, inside) + tl.load(bias + at, inside)
        tl.store(y + at, value.to(tl.float16), inside)


@triton.jit
def attention(q, k, v, out, scale, length, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              WIDTH: tl.constexpr):
    """softmax(scale · q · kᵀ) · v for one head, a block of keys at a time."""
    first = tl.program_id(0) * BLOCK_M
    query = q.load([first, 0])
    greatest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    sums = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    for start in tl.range(0, length, BLOCK_N):
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


def descriptor(element, rows, columns):
    return f"tensordesc<{element}[{rows}, {columns}]>"


def warps(warps, stages):
    return {"num_warps": warps, "num_stages": stages}


def kernels():
    """File, function, types of the arguments in order, constants, options, and whether source
    lines are kept."""
    sizes = {"rows": "i32", "columns": "i32", "depth": "i32"}
    transposed = {
        "a": descriptor("bf16", 128, 64),
        "b": descriptor("bf16", 128, 64),
        "c": descriptor("bf16", 128, 128),
        **sizes,
    }
    plain = transposed | {"b": descriptor("bf16", 64, 128)}
    # This version can move loads to warps of their own only if a tile is as high as one wgmma.
    low = transposed | {"a": descriptor("bf16", 64, 64), "c": descriptor("bf16", 64, 128)}
    bases = {"a_base": "*bf16", "b_base": "*bf16", "c_base": "*bf16", **sizes}
    eights = {
        "a": descriptor("fp8e4nv", 128, 128),
        "b": descriptor("fp8e4nv", 128, 128),
        "c": descriptor("bf16", 128, 128),
        "scale": "fp32",
        **sizes,
    }
    halves = {"a": "*fp16", "b": "*fp16", "c": "*fp32", **sizes}
    rows = {"x": "*fp32", "y": "*fp32", "stride": "i32", "columns": "i32"}
    normalised = {
        "x": "*fp16", "y": "*fp16", "weight": "*fp32", "bias": "*fp32", "mean": "*fp32",
        "rstd": "*fp32", "stride": "i32", "columns": "i32", "epsilon": "fp32",
    }
    head = descriptor("bf16", 64, 64)
    heads = {"q": head, "k": head, "v": head, "out": head, "scale": "fp32", "length": "i32"}
    large = tiles(128, 128, 64)
    wide = tiles(128, 128, 128)
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "WIDTH": 64}
    return [
        ("matmul_bf16", matmul_bf16, plain, large, warps(4, 3), False),
        ("matmul_bf16_persistent", matmul_bf16_persistent, transposed, large, warps(8, 4), False),
        ("matmul_bf16_specialised", matmul_bf16_specialised, low, tiles(64, 128, 64), warps(4, 3),
         False),
        ("matmul_bf16_device_descriptor", matmul_bf16_device_descriptor, bases, large,
         warps(4, 3), False),
        ("matmul_fp8", matmul_fp8, eights, wide | {"IMPRECISE": None}, warps(8, 3), False),
        ("matmul_fp8_promoted", matmul_fp8, eights, wide | {"IMPRECISE": 128}, warps(8, 3), False),
        ("matmul_pointers", matmul_pointers, halves, tiles(64, 64, 32), warps(4, 3), False),
        ("matmul_small", matmul_pointers, halves, tiles(32, 32, 32), warps(2, 3), False),
        ("softmax", softmax, rows, {"BLOCK": 1024}, warps(4, 1), True),
        ("softmax_cluster", softmax, rows, {"BLOCK": 2048}, warps(4, 1) | {"num_ctas": 2}, False),
        ("layer_norm", layer_norm, normalised, {"BLOCK": 1024}, warps(8, 1), True),
        ("attention", attention, heads, blocks, warps(4, 2), False),
    ]


def compile_kernel(function, signature, constants, options, lines):
    knobs.compilation.always_compile = True
    knobs.compilation.disable_line_info = not lines
    types = signature | {name: "constexpr" for name in constants}
    # Pointers and row lengths are multiples of 16, which is what lets Triton use wide accesses.
    multiples = [
        (position,)
        for position, (name, kind) in enumerate(types.items())
        if kind.startswith("*") or (function is matmul_pointers and name in ("columns", "depth"))
        or (function is matmul_bf16_device_descriptor and name in ("columns", "depth"))
        or name == "stride"
    ]
    attributes = {position: [["tt.divisibility", 16]] for position in multiples}
    source = ASTSource(function, types, constants, attributes)
    # The oldest version of PTX that has all of it; more drivers can load that.
    options = options | {"ptx_version": 86, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def clean(text):
    """Folders out, so that the text is the same everywhere.

    Of the debug sections only the one with names stays, which `.loc` refers to.
    """
    section = r"^\s*\.section\s+\.debug_(?!str)\w+\s*\{.*?^\s*\}\n"
    text = re.sub(section, "", text, flags=re.M | re.S)
    text = re.sub(r'(\.file\s+\d+ )"[^"]*/([^"/]+)"', r'\1"\2"', text)
    return text.rstrip() + "\n"


def main():
    if triton.__version__ != VERSION:
        sys.exit(f"this needs Triton {VERSION}, not {triton.__version__}")
    for name, function, signature, constants, options, lines in kernels():
        kernel = compile_kernel(function, signature, constants, options, lines)
        path = FOLDER / f"{name}.ptx"
        path.write_text(clean(kernel.asm["ptx"]))
        own = kernel.metadata
        print(f"{name}: threads {32 * own.num_warps} dynamic_shared {own.shared} "
              f"num_ctas {own.num_ctas} global_scratch {own.global_scratch_size} "
              f"align {own.global_scratch_align} profile_scratch {own.profile_scratch_size}")
        for meta in own.tensordesc_meta or []:
            print(f"    {meta}")
        if len(sys.argv) > 1:
            with tempfile.NamedTemporaryFile(suffix=".cubin") as output:
                subprocess.run([sys.argv[1], "-arch=sm_90a", path, "-o", output.name], check=True)


main()
