//! A small selection out of a product of axes in which any two values of different axes occur
//! together at least once.

use std::collections::HashSet;

use super::data::Generator;

/// Two axes and a value of each; the first axis is the smaller number.
type Pair = ((usize, usize), (usize, usize));

/// Candidates of which each new row is the best.
const CANDIDATES: usize = 24;

/// Rows of value numbers, one per axis of `axes[i]` values. Each is the candidate that covers most
/// pairs for its work, which is not 0 (the greedy heuristic for weighted set cover, Chvátal, Math.
/// Oper. Res. 4, 1979). The choice is deterministic for a seed.
pub(super) fn select(
    axes: &[usize],
    seed: u64,
    work: impl Fn(&[usize]) -> usize,
) -> Vec<Vec<usize>> {
    let mut open = all_pairs(axes);
    let mut remaining: HashSet<Pair> = open.iter().copied().collect();
    let mut generator = Generator::new(seed);
    let mut rows = Vec::new();
    // The pairs are visited in a fixed order; a set alone would be iterated in a random one.
    while let Some(&pair) = open.last() {
        if !remaining.contains(&pair) {
            open.pop();
            continue;
        }
        let best = (0..CANDIDATES)
            .map(|_| candidate(axes, pair, &remaining, &mut generator))
            .max_by(|a, b| {
                let [a, b] = [a, b].map(|row| (gain(row, &remaining), work(row)));
                (a.0 * b.1).cmp(&(b.0 * a.1))
            })
            .unwrap_or_default();
        for pair in pairs_of(&best) {
            remaining.remove(&pair);
        }
        rows.push(best);
    }
    rows
}

/// A row with the given pair; the other axes, in random order, take the value that covers most.
fn candidate(
    axes: &[usize],
    (first, second): Pair,
    remaining: &HashSet<Pair>,
    generator: &mut Generator,
) -> Vec<usize> {
    let mut fixed = vec![first, second];
    let mut others: Vec<usize> =
        (0..axes.len()).filter(|axis| *axis != first.0 && *axis != second.0).collect();
    while !others.is_empty() {
        let axis = others.swap_remove((generator.next() % others.len() as u64) as usize);
        let start = generator.next() as usize % axes[axis];
        let covered = |value: usize| {
            fixed
                .iter()
                .filter(|&&other| remaining.contains(&ordered((axis, value), other)))
                .count()
        };
        let value = (0..axes[axis])
            .map(|offset| (start + offset) % axes[axis])
            .max_by_key(|&value| covered(value))
            .unwrap_or(start);
        fixed.push((axis, value));
    }
    fixed.sort_unstable();
    fixed.into_iter().map(|(_, value)| value).collect()
}

fn gain(row: &[usize], remaining: &HashSet<Pair>) -> usize {
    pairs_of(row).filter(|pair| remaining.contains(pair)).count()
}

fn pairs_of(row: &[usize]) -> impl Iterator<Item = Pair> {
    (0..row.len()).flat_map(move |first| {
        (first + 1..row.len()).map(move |second| ((first, row[first]), (second, row[second])))
    })
}

fn all_pairs(axes: &[usize]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for first in 0..axes.len() {
        for second in first + 1..axes.len() {
            for value in 0..axes[first] {
                pairs.extend((0..axes[second]).map(|other| ((first, value), (second, other))));
            }
        }
    }
    pairs
}

fn ordered(a: (usize, usize), b: (usize, usize)) -> Pair {
    if a.0 < b.0 { (a, b) } else { (b, a) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_occurs_in_few_rows() {
        let axes = [7, 5, 4, 3, 2, 2];
        let work = |row: &[usize]| 10 + row.iter().sum::<usize>();
        let rows = select(&axes, 1, work);
        let covered: HashSet<Pair> = rows.iter().flat_map(|row| pairs_of(row)).collect();
        assert_eq!(covered.len(), all_pairs(&axes).len());
        assert!((35..=50).contains(&rows.len()), "{} rows", rows.len());
        assert_eq!(rows, select(&axes, 1, work), "the selection depends on the seed alone");
    }
    /// A value meets the seven of the longest axis in no fewer rows.
    #[test]
    fn what_is_much_work_occurs_where_it_must() {
        let axes = [7, 5, 4, 3, 2, 2];
        let dear = |row: &[usize]| if row[5] == 1 { 100 } else { 1 };
        for seed in 1..=5 {
            let rows = select(&axes, seed, dear);
            assert_eq!(rows.iter().filter(|row| row[5] == 1).count(), 7, "seed {seed}");
        }
    }
}
