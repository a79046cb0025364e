//! Which driver understands which PTX.

/// The first driver that loads PTX of some version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    /// CUDA version as `cuDriverGetVersion` reports it: 12070 is CUDA 12.7.
    pub cuda: u32,
    /// Branch of the driver release: 565.
    pub branch: u32,
}

impl std::fmt::Display for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (major, minor) = (self.cuda / 1000, self.cuda % 1000 / 10);
        write!(f, "{} (CUDA {major}.{minor})", self.branch)
    }
}

/// PTX version, CUDA version, driver branch: the release table of the PTX ISA manual, from the
/// first version that knows Hopper.
const RELEASES: [(&str, u32, u32); 11] = [
    ("ptx78", 11_080, 520),
    ("ptx80", 12_000, 525),
    ("ptx81", 12_010, 530),
    ("ptx82", 12_020, 535),
    ("ptx83", 12_030, 545),
    ("ptx84", 12_040, 550),
    ("ptx85", 12_050, 555),
    ("ptx86", 12_070, 565),
    ("ptx87", 12_080, 570),
    ("ptx88", 12_090, 575),
    ("ptx90", 13_000, 580),
];

/// The first driver that loads PTX of a version, named as in [`Target`](crate::Target); `None` if
/// the version is not in the table of this crate.
pub fn minimum_driver(ptx: &str) -> Option<Driver> {
    let (_, cuda, branch) = RELEASES.into_iter().find(|(version, ..)| *version == ptx)?;
    Some(Driver { cuda, branch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_8_7_which_knows_all_of_sm_100a_came_with_cuda_12_8() {
        assert_eq!(minimum_driver("ptx87").unwrap().to_string(), "570 (CUDA 12.8)");
        assert_eq!(minimum_driver("ptx90").unwrap().cuda, 13_000);
    }

    #[test]
    fn ptx_8_6_came_with_cuda_12_7() {
        let driver = minimum_driver("ptx86").unwrap();
        assert_eq!(driver.to_string(), "565 (CUDA 12.7)");
        assert_eq!(minimum_driver("ptx99"), None);
    }
}
