//! The names of a layer's tensors in a file: `weight0`, `weight1`, … and `bias0`, … where each
//! expert has a tensor of its own, `weight` and `bias` where one tensor holds all.

use std::collections::BTreeMap;

/// A parameter of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Weights,
    Bias,
}

impl Part {
    /// The name of the packed tensor; an expert's has its number behind.
    pub(super) fn stem(self) -> &'static str {
        match self {
            Self::Weights => "weight",
            Self::Bias => "bias",
        }
    }

    /// Dimensions of one expert's tensor.
    pub(super) fn rank(self) -> usize {
        match self {
            Self::Weights => 2,
            Self::Bias => 1,
        }
    }

    /// Dimensions of one expert's tensor, for messages.
    pub(super) fn shape_of_one(self) -> &'static str {
        match self {
            Self::Weights => "[N, K]",
            Self::Bias => "[N]",
        }
    }

    /// Dimensions of the packed tensor, for messages.
    pub(super) fn shape_of_all(self) -> &'static str {
        match self {
            Self::Weights => "[G, N, K]",
            Self::Bias => "[G, N]",
        }
    }
}

/// The names that one parameter has in a file.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    /// The tensor of all experts.
    pub(super) packed: Option<&'a str>,
    /// The tensors of single experts, by number: `weight10` stands behind `weight9`.
    pub(super) experts: BTreeMap<usize, &'a str>,
}

/// The names that a layer's parameters have in a file.
#[derive(Debug, Default)]
pub(super) struct LayerNames<'a> {
    pub(super) weights: Names<'a>,
    pub(super) bias: Names<'a>,
}

impl<'a> LayerNames<'a> {
    /// Those among `names` that are `prefix` and the name of a parameter's tensor.
    pub(super) fn under(prefix: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut found = Self::default();
        for name in names {
            if let Some(rest) = name.strip_prefix(prefix) {
                found.add(rest, name);
            }
        }
        found
    }

    /// The layers whose prefix is empty or ends with a dot, by prefix.
    pub(super) fn all(names: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, Self> {
        let mut layers = BTreeMap::<&str, Self>::new();
        for name in names {
            let (prefix, rest) = name.split_at(name.rfind('.').map_or(0, |dot| dot + 1));
            if parse(rest).is_some() {
                layers.entry(prefix).or_default().add(rest, name);
            }
        }
        layers
    }

    /// Notes `name`, which ends with `rest`, if `rest` is the name of a parameter's tensor.
    fn add(&mut self, rest: &str, name: &'a str) {
        let Some((part, expert)) = parse(rest) else { return };
        let names = match part {
            Part::Weights => &mut self.weights,
            Part::Bias => &mut self.bias,
        };
        match expert {
            None => names.packed = Some(name),
            Some(expert) => drop(names.experts.insert(expert, name)),
        }
    }

    /// Every name of the layer.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a str> {
        [&self.weights, &self.bias]
            .into_iter()
            .flat_map(|names| names.packed.into_iter().chain(names.experts.values().copied()))
    }
}

/// What a name behind a prefix means: a parameter, and which expert's, `None` for all of them.
fn parse(rest: &str) -> Option<(Part, Option<usize>)> {
    [Part::Weights, Part::Bias].into_iter().find_map(|part| {
        let number = rest.strip_prefix(part.stem())?;
        if number.is_empty() {
            return Some((part, None));
        }
        Some((part, Some(expert(number)?)))
    })
}

/// The number that is written as `digits`; the largest there is if it is larger still, which is
/// then refused as any other gap. `01` is no expert's number, since no one writes it.
fn expert(digits: &str) -> Option<usize> {
    let written = digits.bytes().all(|digit| digit.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'));
    written.then(|| digits.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let cases = [
            ("weight", Some((Part::Weights, None))),
            ("bias", Some((Part::Bias, None))),
            ("weight0", Some((Part::Weights, Some(0)))),
            ("weight10", Some((Part::Weights, Some(10)))),
            ("bias7", Some((Part::Bias, Some(7)))),
            ("weight18446744073709551616", Some((Part::Weights, Some(usize::MAX)))),
            ("", None),
            ("weights", None),
            ("weight01", None),
            ("weight00", None),
            ("weight+1", None),
            ("weight-1", None),
            ("weight 1", None),
            ("weight1.scale", None),
            ("weight٣", None), // a digit, but not an ASCII one
            ("_extra_state", None),
        ];
        for (name, want) in cases {
            assert_eq!(parse(name), want, "{name:?}");
        }
    }

    #[test]
    fn experts_are_ordered_by_number() {
        let names: Vec<String> = (0..12).rev().map(|g| format!("a.b.weight{g}")).collect();
        let names = names.iter().map(String::as_str).chain(["a.weight3", "a.b.norm.weight"]);
        let found = LayerNames::under("a.b.", names);
        let want: Vec<String> = (0..12).map(|g| format!("a.b.weight{g}")).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), want);
    }

    #[test]
    fn the_prefix_ends_at_the_last_dot() {
        let names = ["weight0", "a.weight", "a.bias1", "a.b.weight1", "a.fc_weight", "a.weight.x"];
        let layers = LayerNames::all(names);
        assert_eq!(layers.keys().copied().collect::<Vec<_>>(), ["", "a.", "a.b."]);
        assert_eq!(layers["a."].iter().collect::<Vec<_>>(), ["a.weight", "a.bias1"]);
    }
}
