"""Peers of grouped-linear on one GPU: torch, and TransformerEngine and DeepGEMM if they are installed.

`grouped-linear bench` starts this, asks for one thing at a time with a line of JSON on standard input,
and gets a line of JSON back; cli/src/bench/measure/peer.rs lists requests and answers. What a library
cannot do is answered with the reason, {"refused": …}; what nobody can go on after, {"error": …}.

Data are normal random numbers on the device, weights with a variance of 1 / K, as on the other side; only
TransformerEngine's layer has its own weights.

The first call of a product is compared with torch's grouped product in BF16 over the same numbers. Dense
products, which compute something else, layers, and DeepGEMM's FP8, which has tokens of its own, are not.
"""
import importlib
import json
import os
import sys
import time

# Libraries print what they like; answers have a pipe of their own.
ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

FLUSH_BYTES = 256 << 20
COPY_BYTES = 2 << 30
# Clocks of a microsecond, at the highest clock: `_sleep` counts those of the multiprocessors.
CYCLES = 1980
# Launches that the driver takes without waiting for the GPU, with room to spare.
QUEUE = 800
# Norm of a difference by the norm of what it should be: each side rounds to BF16, and FP8 tensor cores
# that add up fast keep about 13 bits of a sum.
CLOSE = 1e-2
CLOSE_FAST = 5e-2


class Refused(Exception):
    """A library cannot do this."""


class Call:
    """What a contender runs; `launches` is about how many kernels that takes.

    `compare` has two functions, what one call has computed by now and what it should be, each a matrix for
    each expert that has rows, and how far they may be apart.
    """

    def __init__(self, run, launches=8, compare=None):
        self.run, self.launches, self.compare = run, launches, compare
        self.host_us = 1000.0  # of the last call

    def __call__(self):
        start = time.perf_counter()
        self.run()
        self.host_us = (time.perf_counter() - start) * 1e6


def normal(*shape, scale=1.0, dtype=None):
    """Normal numbers; drawn in FP32, a part at a time, so that large tensors leave room for others."""
    tensor = torch.empty(shape, device="cuda", dtype=dtype or torch.bfloat16)
    lines = max(1, (256 << 20) // max(1, tensor[:1].numel()))
    for part in tensor.split(lines):
        part.copy_(torch.randn(part.shape, device="cuda") * scale)
    return tensor


class Shape:
    def __init__(self, shape):
        self.splits, self.n, self.k = shape["splits"], shape["n"], shape["k"]
        self.groups, self.rows = len(self.splits), sum(self.splits)
        self.live = [group for group, rows in enumerate(self.splits) if rows]
        self.ends = torch.tensor(self.splits, device="cuda").cumsum(0).to(torch.int32)

    def x(self, dtype=None):
        return normal(self.rows, self.k, dtype=dtype)

    def dy(self, dtype=None):
        return normal(self.rows, self.n, dtype=dtype)

    def w(self):
        return normal(self.groups, self.n, self.k, scale=self.k**-0.5)


# A section is a dictionary of tasks, a task one of contenders; each is a function that makes what the
# contender writes into and returns its Call. Results are made when a task begins and freed behind it.


def copy_section(_shape):
    source = torch.zeros(COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return {"copy": {"torch": lambda: Call(lambda: target.copy_(source))}}


def loop_over(calls, compare=None):
    """One call after the other, as a loop over experts does."""

    def run():
        for call in calls:
            call()

    return Call(run, launches=len(calls), compare=compare)


def check_first(call):
    """Makes the first call and compares its result, if there is something to compare it with."""
    if call.compare is None:
        return
    got, want, close = call.compare
    call()
    off = size = 0.0
    for mine, right in zip(got(), want()):
        right = right.float()
        off += float(torch.dist(mine.float(), right)) ** 2
        size += float(torch.linalg.vector_norm(right)) ** 2
    if not off <= close**2 * size:
        apart = (off / size) ** 0.5 if size else off
        raise Refused(f"its result is wrong: {apart:.1e} from torch's grouped product in BF16")


def empty(*shape, dtype=None):
    return torch.empty(shape, device="cuda", dtype=dtype or torch.bfloat16)


def by_expert(shape, tensor):
    """Matrices of the experts that have rows."""
    parts = tensor.split(shape.splits) if len(tensor.shape) == 2 else tensor
    return (parts[group] for group in shape.live)


def grouped_products(shape):
    """torch._grouped_mm in BF16."""
    x, w, dy, ends = shape.x(), shape.w(), shape.dy(), shape.ends
    runs = {
        "fprop": lambda: torch._grouped_mm(x, w.transpose(1, 2), offs=ends),
        "dgrad": lambda: torch._grouped_mm(dy, w, offs=ends),
        "wgrad": lambda: torch._grouped_mm(dy.t(), x, offs=ends),
    }
    return (x, w, dy), runs


def overwriting(section):
    """Peers that cannot add to an FP32 gradient are timed with the overwriting product instead."""
    tasks = section["accumulate"]
    for name, make in section["wgrad"].items():
        tasks.setdefault(f"{name}_overwrite", make)
    return section


def bf16_section(shape):
    (x, w, dy), grouped = grouped_products(shape)
    xs, dys, live = x.split(shape.splits), dy.split(shape.splits), shape.live
    tasks = {task: {"torch_grouped": lambda run=run: Call(run)} for task, run in grouped.items()}
    tasks["accumulate"] = {}

    def beside(task, result):
        return lambda: (result[i] for i in live), lambda: by_expert(shape, grouped[task]()), CLOSE

    def loop_fprop():
        ys = empty(shape.rows, shape.n).split(shape.splits)
        calls = [lambda i=i: torch.mm(xs[i], w[i].t(), out=ys[i]) for i in live]
        return loop_over(calls, beside("fprop", ys))

    def loop_dgrad():
        dxs = empty(shape.rows, shape.k).split(shape.splits)
        calls = [lambda i=i: torch.mm(dys[i], w[i], out=dxs[i]) for i in live]
        return loop_over(calls, beside("dgrad", dxs))

    def loop_wgrad():
        dw = empty(shape.groups, shape.n, shape.k)
        calls = [lambda i=i: torch.mm(dys[i].t(), xs[i], out=dw[i]) for i in live]
        return loop_over(calls, beside("wgrad", dw))

    def loop_accumulate():
        dw = torch.zeros(shape.groups, shape.n, shape.k, device="cuda")

        def add(i):
            torch.addmm(dw[i], dys[i].t(), xs[i], out_dtype=torch.float32, out=dw[i])

        return loop_over([lambda i=i: add(i) for i in live], beside("wgrad", dw))

    tasks["fprop"] |= {"cublas_loop": loop_fprop, "dense": lambda: Call(lambda: torch.mm(x, w[0].t()))}
    tasks["dgrad"] |= {"cublas_loop": loop_dgrad, "dense": lambda: Call(lambda: torch.mm(dy, w[0]))}
    tasks["wgrad"] |= {"cublas_loop": loop_wgrad, "dense": lambda: Call(lambda: torch.mm(dy.t(), x))}
    overwriting(tasks)
    tasks["accumulate"]["cublas_loop"] = loop_accumulate
    if "deep_gemm" in LIBRARIES:
        deepgemm_bf16(tasks, shape, (x, w, dy), beside)
    return tasks


def fp8_section(shape):
    """Rowwise scales in grouped products, one scale in dense ones; every operand is E4M3."""
    e4m3 = torch.float8_e4m3fn
    groups, rows, n, k = shape.groups, shape.rows, shape.n, shape.k
    x, dy, ends = shape.x(e4m3), shape.dy(e4m3), shape.ends
    # As large as scaled numbers are; their scale makes weights with a variance of 1 / K of them.
    w, scale = normal(groups, n, k, dtype=e4m3), k**-0.5
    # Operands run along the reduction: n in dgrad, rows in wgrad.
    wt = torch.empty(groups, k, n, device="cuda", dtype=e4m3)
    for group in range(groups):
        wt[group].copy_(w[group].t())
    xt, dyt = x.t().contiguous(), dy.t().contiguous()

    def scales(of_all, *lengths):
        return torch.ones(lengths, device="cuda") * of_all

    def grouped(task, fast):
        a, b, lengths, of_all, _ = operands[task]

        def make():
            if task == "wgrad" and any(rows % 16 for rows in shape.splits):
                raise Refused("torch wants the rows of every expert to be a multiple of 16 in wgrad")
            sa, sb = scales(1.0, *lengths[0]), scales(of_all, *lengths[1])
            options = {"out_dtype": torch.bfloat16, "use_fast_accum": fast}

            def run():
                return torch._scaled_grouped_mm(a, b, sa, sb, offs=ends, **options)

            def want():
                # BF16 has room for every number of E4M3.
                whole = torch._grouped_mm(a.to(torch.bfloat16), b.to(torch.bfloat16), offs=ends)
                return (matrix.float() * of_all for matrix in by_expert(shape, whole))

            close = CLOSE_FAST if fast else CLOSE
            return Call(run, compare=(lambda: by_expert(shape, run()), want, close))

        return make

    def dense(task, fast):
        _, _, _, of_all, (a, b) = operands[task]
        options = {"scale_a": scales(1.0), "scale_b": scales(of_all)}
        options |= {"out_dtype": torch.bfloat16, "use_fast_accum": fast}
        return lambda: Call(lambda: torch._scaled_mm(a, b.t(), **options))

    # Both grouped operands, lengths of their scales, the scale of the second, and dense operands.
    operands = {
        "fprop": (x, w.transpose(1, 2), ((rows,), (groups, n)), scale, (x, w[0])),
        "dgrad": (dy, wt.transpose(1, 2), ((rows,), (groups, k)), scale, (dy, wt[0])),
        "wgrad": (dyt, xt.t(), ((groups * n,), (groups * k,)), 1.0, (dyt, xt)),
    }
    tasks = {"accumulate": {}}
    for task in operands:
        tasks[task] = {
            "torch_scaled_grouped_fast": grouped(task, True),
            "torch_scaled_grouped": grouped(task, False),
            "dense_fast": dense(task, True),
            "dense": dense(task, False),
        }
    overwriting(tasks)
    if "deep_gemm" in LIBRARIES:
        deepgemm_fp8(tasks, shape)
    return tasks


def micro_section(shape):
    """Hopper's tensor cores multiply neither format, so the peer is BF16."""
    _, grouped = grouped_products(shape)
    tasks = {task: {"torch_grouped_bf16": lambda run=run: Call(run)} for task, run in grouped.items()}
    tasks["accumulate"] = {}
    return overwriting(tasks)


def layer_section(kind):
    def section(shape):
        (x, _, dy), grouped = grouped_products(shape)
        calls = list(grouped.values())
        tasks = {
            "forward": {"torch_grouped_bf16": lambda: Call(calls[0])},
            "layer": {"torch_grouped_bf16": lambda: loop_over(calls)},
        }
        if "transformer_engine" in LIBRARIES:
            for task in tasks:
                make = lambda task=task: transformer_engine(kind, shape, x, dy, task == "layer")
                if kind == "mxfp8-square":
                    make = cannot("TransformerEngine is asked for MXFP8 with lines alone: see layer.mxfp8")
                tasks[task]["transformer_engine"] = make
        return tasks

    return section


LAYERS = (
    "bf16",
    "current",
    "current-cached",
    "delayed",
    "block",
    "block-cached",
    "mxfp8",
    "mxfp8-square",
    "nvfp4",
)


def transformer_engine(kind, shape, x, dy, backward):
    """TransformerEngine's GroupedLinear, weights quantized in every call or in the first alone."""
    te = LIBRARIES["transformer_engine"]
    recipes = importlib.import_module("transformer_engine.common.recipe")
    names = {
        "current": "Float8CurrentScaling",
        "delayed": "DelayedScaling",
        "block": "Float8BlockScaling",
        "mxfp8": "MXFP8BlockScaling",
        "nvfp4": "NVFP4BlockScaling",
    }
    recipe_name, cached, _ = kind.partition("-cached")
    layer = te.GroupedLinear(shape.groups, shape.k, shape.n, bias=False, params_dtype=torch.bfloat16)
    recipe = getattr(recipes, names[recipe_name])() if recipe_name in names else None
    microbatch = {"is_first_microbatch": True} if cached else {}
    x = x.detach().clone().requires_grad_(backward)

    def precision():
        if hasattr(te, "autocast"):
            return te.autocast(enabled=recipe is not None, recipe=recipe)
        return te.fp8_autocast(enabled=recipe is not None, fp8_recipe=recipe)

    def run():
        with precision():
            y = layer(x, shape.splits, **microbatch)
        if cached:
            microbatch["is_first_microbatch"] = False
        if backward:
            x.grad = None
            for parameter in layer.parameters():
                parameter.grad = None
            y.backward(dy)

    return Call(run, launches=QUEUE // 4)


def padded(shape, *tensors):
    """Rows of each expert up to a multiple of 128, and the expert of each row, as DeepGEMM wants it."""
    lengths = [-(-rows // 128) * 128 for rows in shape.splits]
    experts = torch.full((sum(lengths),), -1, dtype=torch.int32, device="cuda")
    copies = [torch.zeros(sum(lengths), t.shape[1], dtype=t.dtype, device="cuda") for t in tensors]
    start = begin = 0
    for group, (rows, length) in enumerate(zip(shape.splits, lengths)):
        experts[start : start + rows] = group
        for tensor, copy in zip(tensors, copies):
            copy[start : start + rows] = tensor[begin : begin + rows]
        start, begin = start + length, begin + rows
    return lengths, experts, copies


def deepgemm_bf16(tasks, shape, operands, beside):
    deep_gemm, (x, w, dy) = LIBRARIES["deep_gemm"], operands

    def without_padding(tensor, lengths):
        return [part[:rows] for part, rows in zip(tensor.split(lengths), shape.splits)]

    def fprop():
        lengths, experts, (rows,) = padded(shape, x)
        y = empty(sum(lengths), shape.n)
        compare = beside("fprop", without_padding(y, lengths))
        run = deep_gemm.m_grouped_bf16_gemm_nt_contiguous
        return Call(lambda: run(rows, w, y, experts), compare=compare)

    def dgrad():
        lengths, experts, (rows,) = padded(shape, dy)
        dx = empty(sum(lengths), shape.k)
        compare = beside("dgrad", without_padding(dx, lengths))
        run = deep_gemm.m_grouped_bf16_gemm_nn_contiguous
        return Call(lambda: run(rows, w, dx, experts), compare=compare)

    def accumulate():
        lengths, _, (left, right) = padded(shape, dy, x)
        counts = torch.tensor(lengths, dtype=torch.int32, device="cuda")
        dw = torch.zeros(shape.groups, shape.n, shape.k, device="cuda")
        run = deep_gemm.k_grouped_bf16_gemm_tn_contiguous
        return Call(lambda: run(left, right, dw, lengths, counts, dw), compare=beside("wgrad", dw))

    tasks["fprop"]["deepgemm"] = fprop
    tasks["dgrad"]["deepgemm"] = dgrad
    tasks["wgrad"]["deepgemm"] = cannot("DeepGEMM's gradient of weights accumulates: see accumulate")
    tasks["accumulate"]["deepgemm"] = accumulate


def deepgemm_fp8(tasks, shape):
    deep_gemm = LIBRARIES["deep_gemm"]

    def product(tokens, weights, width):
        def make():
            utils = importlib.import_module("deep_gemm.utils")
            lengths, experts, (rows,) = padded(shape, tokens())
            a, sa = utils.per_token_cast_to_fp8(rows, use_ue8m0=False)
            blocks = [utils.per_block_cast_to_fp8(matrix, use_ue8m0=False) for matrix in weights()]
            b, sb = (torch.stack(part) for part in zip(*blocks))
            sa = deep_gemm.get_mn_major_tma_aligned_tensor(sa)
            result = empty(sum(lengths), width)
            run, options = deep_gemm.m_grouped_fp8_gemm_nt_contiguous, {"disable_ue8m0_cast": True}
            return Call(lambda: run((a, sa), (b, sb), result, experts, **options))

        return make

    def transposed():
        return (matrix.t().contiguous() for matrix in shape.w())

    tasks["fprop"]["deepgemm"] = product(shape.x, shape.w, shape.n)
    tasks["dgrad"]["deepgemm"] = product(shape.dy, transposed, shape.k)
    reason = "DeepGEMM's FP8 gradient of weights is not timed: experts of 128 rows come out wrong in it"
    tasks["wgrad"]["deepgemm"] = tasks["accumulate"]["deepgemm"] = cannot(reason)


def cannot(reason):
    def make():
        raise Refused(reason)

    return make


SECTIONS = {
    "copy": copy_section,
    "bf16": bf16_section,
    "fp8": fp8_section,
    "mxfp8": micro_section,
    "nvfp4": micro_section,
    "quantize": lambda _shape: {},
    **{f"layer.{kind}": layer_section(kind) for kind in LAYERS},
}


class Peer:
    def __init__(self):
        self.tasks = {}
        self.task = None
        self.calls = {}
        self.flush = None

    def hello(self, request):
        global torch, LIBRARIES
        try:
            import torch
        except ImportError as error:
            return {"error": f"torch cannot be imported: {error}"}
        if not torch.cuda.is_available():
            return {"error": "torch finds no GPU"}
        torch.manual_seed(request["seed"] % (1 << 63))
        self.flush = Flush()
        versions = {"torch": torch.__version__, "python": sys.version.split()[0]}
        versions["cuda of torch"] = str(torch.version.cuda)
        absent, LIBRARIES = {}, {}
        for name, module in (("deep_gemm", "deep_gemm"), ("transformer_engine", "transformer_engine.pytorch")):
            try:
                LIBRARIES[name] = importlib.import_module(module)
                versions[name] = str(getattr(importlib.import_module(name), "__version__", "unknown"))
            except Exception as error:  # a library that is there but broken is as good as none
                absent[name] = first_line(error)
        if not hasattr(torch, "_grouped_mm"):
            absent["torch_grouped"] = "this torch has no _grouped_mm"
        absent["cublas_grouped"] = "torch has no function that calls cuBLAS's grouped product"
        return {"about": {"versions": versions, "absent": absent}}

    def prepare(self, request):
        self.tasks, self.task, self.calls = {}, None, {}
        torch.cuda.empty_cache()
        make = SECTIONS[request["section"]]
        self.tasks = make(None if request["section"] == "copy" else Shape(request["shape"]))
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return {"ok": True}

    def list(self, request):
        return {"names": list(self.tasks.get(request["task"], {}))}

    def time(self, request):
        task, contender, replay = request["task"], request["contender"], request["replay"]
        if task != self.task:
            self.task, self.calls = task, {}
            torch.cuda.empty_cache()
        if (contender, replay) not in self.calls:
            call = self.tasks[task][contender]()
            check_first(call)
            torch.cuda.empty_cache()
            self.calls[contender, replay] = recorded(call) if replay else call
        return {"us": measured(self.calls[contender, replay], request["pace"], self.flush)}


class Flush:
    """Empties the L2 cache, by writing more than it holds."""

    def __init__(self):
        self.memory = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        for _ in range(2):  # the second is without what a first call takes
            start, end = torch.cuda.Event(True), torch.cuda.Event(True)
            start.record()
            self.memory.zero_()
            end.record()
            end.synchronize()
        self.us = max(start.elapsed_time(end) * 1e3, 1.0)

    def before(self, call):
        """Empties it for so long that the host has queued the call when the GPU comes to it. This is load,
        as the flush on the other side is: a card at its power limit would cool down while it waits."""
        times = 1 + int(2 * min(call.host_us, 20000) / self.us)
        for _ in range(min(times, QUEUE // 2)):
            self.memory.zero_()


def recorded(call):
    """The same as a graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return Call(graph.replay, launches=1)


def measured(call, pace, flush):
    """Microseconds of a call."""
    if "host" in pace:
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        call()
        end.record()
        end.synchronize()
        # As on the other side: what the GPU needs 20 ms for, but no more than its queue takes.
        calls = min(pace["host"], max(5, int(20 / max(start.elapsed_time(end), 0.001))))
        calls = max(1, min(calls, QUEUE // call.launches))
        start = time.perf_counter()
        for _ in range(calls):
            call.run()
        taken = time.perf_counter() - start
        torch.cuda.synchronize()
        return taken * 1e6 / calls
    calls = pace.get("in_a_row", 1)
    if "single" in pace:
        pause, asleep = pace["single"]["pause_us"], pace["single"]["asleep"]
        if pause and asleep == "kernel":
            torch.cuda._sleep(pause * CYCLES)
        elif pause:
            torch.cuda.synchronize()
            time.sleep(pause / 1e6)
        flush.before(call)
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / calls


def first_line(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def raised_here(error):
    """Whether the script itself raised this, and not a library that it called."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_globals is globals()


def answer(peer, request):
    handler = getattr(peer, request["do"], None)
    if handler is None or request["do"].startswith("_"):
        return {"error": f"unknown request `{request['do']}`"}
    try:
        return handler(request)
    except Refused as refusal:
        reason = str(refusal)
    except Exception as error:  # refusals of libraries have many types
        reason = first_line(error)
        if isinstance(error, (NameError, KeyError)) and raised_here(error):
            return {"error": f"a mistake in the peer's script: {reason}"}
    try:
        # Tracebacks hold what the call had allocated; they are gone here.
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except Exception as error:
        return {"error": f"{reason}; the GPU cannot be used any more: {first_line(error)}"}
    return {"refused": reason}


def main():
    peer = Peer()
    for line in sys.stdin:
        try:
            reply = answer(peer, json.loads(line))
        except Exception as error:
            reply = {"error": first_line(error)}
        print(json.dumps(reply), file=ANSWERS, flush=True)


if __name__ == "__main__":
    main()
