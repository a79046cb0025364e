//! What a run prints when it ends.

use std::fmt::Write;

use super::linear::LinearTimes;
use super::load::STARVED;
use super::log::Summary;

/// The end of a run, for people.
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    let verdict = if summary.below_bigram { "below" } else { "NOT below" };
    let _ = writeln!(
        out,
        "held-out loss {:.4} nats/byte is {verdict} the bigram model's {:.4} ({} bytes)",
        summary.held_out_loss, summary.bigram_loss, summary.held_out_bytes
    );
    let starved = if summary.starved { "at least one is starved" } else { "none is starved" };
    let _ = writeln!(
        out,
        "least expert load {:.2} of the mean; {starved} (limit {STARVED})",
        summary.least_load
    );
    let _ = writeln!(out, "\n{}", times(summary));
    let copies = summary.grouped_linear.upload + summary.grouped_linear.download;
    let host = summary.seconds - summary.grouped_linear.compute() - copies;
    let _ = write!(
        out,
        "{:.1} s in all: GroupedLinear {:.2} s, copies {:.2} s, host parts {:.1} s",
        summary.seconds,
        summary.grouped_linear.compute(),
        copies,
        host
    );
    if summary.warm_up_seconds > 0.0 {
        let _ = write!(out, "; loading the kernels before: {:.2} s", summary.warm_up_seconds);
    }
    out
}

/// Time of GroupedLinear by layer and operation.
fn times(summary: &Summary) -> String {
    let mut out = format!(
        "{:<14}{:>8}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
        "GroupedLinear", "calls", "forward s", "backward s", "both s", "upload s", "download s"
    );
    let rows = summary.by_layer.iter().map(|(name, times)| (*name, times));
    for (name, times) in rows.chain([("all layers", &summary.grouped_linear)]) {
        let LinearTimes { forward_calls, forward, backward, upload, download, .. } = *times;
        let both = times.compute();
        let _ = writeln!(
            out,
            "{name:<14}{forward_calls:>8}{forward:>12.3}{backward:>12.3}{both:>12.3}\
             {upload:>12.3}{download:>12.3}"
        );
    }
    out
}
