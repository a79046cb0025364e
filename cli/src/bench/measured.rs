//! What was measured, to stand beside predictions.

use super::model::machine::Machine;
use super::model::product::Pass;

/// Shape, pass, kernel and rate a line; lines that begin with `#` say where they come from.
const MEASURED: &str = include_str!("measured.tsv");
/// The machine that was measured.
const MEASURED_ON: &str = "h200";

/// The rate that `machine` had: TFLOP/s of a product, or a quantizer's share of a copy's bandwidth.
/// `None`: it was not measured.
pub fn rate(machine: &Machine, shape: &str, pass: Option<Pass>, kernel: &str) -> Option<f64> {
    if machine.name != MEASURED_ON {
        return None;
    }
    let pass = pass.map_or("quantize", Pass::name);
    MEASURED.lines().find_map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            [s, p, k, rate] if [s, p, k] == [shape, pass, kernel] => rate.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::model::machine::{B200, H200};
    use super::*;

    #[test]
    fn every_line_is_found_again() {
        let lines: Vec<_> = MEASURED.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines.len(), 64 + 48 + 90);
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            let passes = [Pass::Fprop, Pass::Dgrad, Pass::Wgrad, Pass::Accumulate];
            let pass = passes.into_iter().find(|pass| pass.name() == fields[1]);
            assert_eq!(rate(&H200, fields[0], pass, fields[2]), fields[3].parse().ok(), "{line}");
            assert_eq!(rate(&B200, fields[0], pass, fields[2]), None);
        }
    }
}
