//! The clusters of a grid that have not started.

use crate::machine::LaunchConfig;

/// The clusters that are left, x fastest. They are counted rather than listed, as a grid may have
/// 2⁶³ blocks.
#[derive(Debug)]
pub(crate) struct Clusters {
    /// How many there are along each axis.
    shape: [u32; 3],
    next: u64,
    total: u64,
}

impl Clusters {
    /// All clusters of a launch.
    pub(crate) fn new(config: &LaunchConfig) -> Self {
        let shape: [u32; 3] =
            std::array::from_fn(|axis| config.grid[axis] / config.cluster[axis].max(1));
        let total = shape.iter().fold(1u64, |all, own| all.saturating_mul(u64::from(*own)));
        Self { shape, next: 0, total }
    }

    /// The index of the next cluster in the grid, in clusters. It is not there for others then:
    /// it starts, or a running block does its work.
    pub(crate) fn take(&mut self) -> Option<[u32; 3]> {
        if self.next >= self.total {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let [x, y, _] = self.shape.map(|own| u64::from(own).max(1));
        Some([number % x, number / x % y, number / x / y].map(|own| own as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_comes_once() {
        let config = LaunchConfig {
            grid: [4, 3, 2],
            block: [1; 3],
            cluster: [2, 1, 1],
            dynamic_shared_bytes: 0,
        };
        let mut clusters = Clusters::new(&config);
        let all: Vec<_> = std::iter::from_fn(|| clusters.take()).collect();
        assert_eq!(all.len(), 12);
        assert_eq!(all[..3], [[0, 0, 0], [1, 0, 0], [0, 1, 0]]);
        assert_eq!(all[11], [1, 2, 1]);
        let empty = LaunchConfig { grid: [0, 1, 1], ..config };
        assert_eq!(Clusters::new(&empty).take(), None);
    }
}
