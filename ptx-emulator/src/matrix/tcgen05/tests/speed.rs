//! How fast products are. Nothing is asserted; run it with `cargo test --package ptx-emulator --lib
//! -- --ignored --nocapture tcgen05`.

use super::model::{Case, Trial};
use super::values::{Random, Type};
use crate::matrix::tcgen05::{Group, Kind, Mma};
use std::time::Instant;

#[test]
#[ignore = "takes time and asserts nothing"]
fn products_a_second() {
    let mut random = Random(1);
    let table = [
        (Kind::F16, Group::One, 128, 256, Type::Bf16),
        (Kind::F16, Group::Two, 256, 256, Type::Bf16),
        (Kind::F16, Group::One, 128, 64, Type::F16),
        (Kind::Tf32, Group::One, 128, 256, Type::Tf32),
        (Kind::F8f6f4, Group::One, 128, 256, Type::E4m3),
        (Kind::I8, Group::One, 128, 256, Type::S8),
        (Kind::Mxf8f6f4, Group::One, 128, 256, Type::E4m3),
        (Kind::Mxf4nvf4, Group::One, 128, 256, Type::E2m1),
    ];
    for (kind, group, m, n, ty) in table {
        let mut trial = Trial::new(&mut random, Case::new(kind, group, m, n, ty));
        let turns = 200;
        let start = Instant::now();
        for _ in 0..turns {
            let mma = Mma::new(&trial.case.form(), &trial.operands).expect("a valid product");
            mma.execute(&mut trial.world).expect("operands in memory");
        }
        let seconds = start.elapsed().as_secs_f64();
        let products = f64::from(m * n * kind.k() * turns);
        println!("{kind:?} {m}x{n}: {:.2} G multiply-adds/s", products / seconds / 1e9);
        let mma = Mma::new(&trial.case.form(), &trial.operands).expect("a valid product");
        let start = Instant::now();
        let ranges: usize = (0..turns).map(|_| mma.footprint().shared.len()).sum();
        let microseconds = start.elapsed().as_secs_f64() * 1e6 / f64::from(turns);
        println!("  footprint {microseconds:.1} us, {} ranges", ranges / turns as usize);
    }
}
