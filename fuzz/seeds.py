#!/usr/bin/env python3
"""Writes a few hundred small seeds: python3 seeds.py FOLDER.

Whole modules are too large to mutate well. A seed is the text of every form the parser knows, one
of its functions, or a window of a shipped kernel's body inside an entry that declares what the
window needs.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
# Lines of a body in one seed, and lines between the starts of two seeds.
WINDOW = 40
STEP = 400


def windows(text):
    """Pieces of the bodies of a module, each a module of its own."""
    registers = (
        ".reg .pred %p<9999>;\n.reg .b16 %rs<9999>;\n.reg .b32 %r<9999>;\n"
        ".reg .b64 %rd<9999>;\n.reg .f32 %f<9999>;\n.reg .b128 %rq<99>;\n"
    )
    lines = [line.strip() for line in text.splitlines()]
    for start in range(0, len(lines) - WINDOW, STEP):
        kept = []
        for line in lines[start : start + WINDOW]:
            outside = line.startswith((".visible", ".entry", ".param", ".reg", ".req", ".min",
                                       ".max", ".extern", ".version", ".target", ".address",
                                       "//", ")", ".global", ".loc", ".file"))
            if line and not outside and line not in "{}":
                kept.append(line)
        body = "\n".join(kept)
        defined = set(re.findall(r"^([$\w]+):", body, re.M))
        labels = sorted(set(re.findall(r"\$L\w+", body)) - defined)
        symbols = sorted(set(re.findall(r"\b[a-z_]\w*_param_\d+\b", body)))
        parameters = ", ".join(f".param .b64 {name}" for name in symbols)
        shared = ".extern .shared .align 16 .b8 ptx_std_shared[];\n"
        yield (
            f"{HEAD}{shared}.visible .entry e({parameters})\n.reqntid 128\n{{\n{registers}"
            f"{body}\n" + "".join(f"{label}:\n" for label in labels) + "ret;\n}\n"
        )


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    forms = (ROOT / "ptx-emulator/tests/forms.ptx").read_text()
    seeds = [forms]
    statements = [line.strip() for line in forms.splitlines()]
    seeds += [
        f"{HEAD}.global .b32 g;\n.entry e(.param .b64 a) {{\n.reg .pred %p<9>;\n"
        f".reg .b32 %r<99>;\n.reg .b64 %rd<99>;\n{line}\n}}\n"
        for line in statements
        if line
    ]
    seeds += [f"{HEAD}{line}\n" for line in statements if line.startswith(".")]
    for path in sorted((ROOT / "host/ptx/sm_90a").glob("*.ptx")):
        seeds += windows(path.read_text())
    for number, seed in enumerate(seeds):
        (folder / f"seed_{number:04}.ptx").write_text(seed)


main()
