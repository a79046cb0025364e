#!/bin/sh
# Fuzzes the parser with a stable compiler: ./run.sh [libFuzzer options], 60 seconds by default.
#
# The flags are those `cargo fuzz` gives, without the address sanitizer: the crate has no unsafe
# code, and without it a stable compiler is enough and inputs run faster. RUSTC_BOOTSTRAP admits
# the two passes of a compiler that is otherwise as released.
set -eu
cd "$(dirname "$0")"
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Cdebug-assertions \
-Coverflow-checks -Ccodegen-units=1"
cargo build --release --target "$host"
mkdir -p corpus/parse artifacts/parse
[ -n "$(ls corpus/parse)" ] || python3 seeds.py corpus/parse
[ $# -gt 0 ] || set -- -max_total_time=60
exec "${CARGO_TARGET_DIR:-target}/$host/release/parse" corpus/parse \
    -dict=ptx.dict -artifact_prefix=artifacts/parse/ \
    -max_len=8192 -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 "$@"
