//! Every case on the emulator, compared with the table.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use ptx_emulator::tensor_map::{Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorDataType};
use ptx_emulator::{Arch, LaunchConfig, Machine, TensorMap, TiledMap};

use crate::cases::{self, Buffer, Case, Compare, Map};
use crate::numbers::Format;
use crate::table;

const TABLE: &str = include_str!("h200.tsv");

/// Agreeing cases and all cases of each family.
type Counts = Arc<Mutex<BTreeMap<String, (usize, usize)>>>;

pub fn run(cases: Vec<Case>) -> ExitCode {
    let arguments = Arguments::from_args();
    let rows: BTreeMap<&str, &str> = TABLE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let counts = Counts::default();
    let names: BTreeSet<String> = cases.iter().map(|case| case.name.clone()).collect();
    let mut trials = vec![Trial::test("the table and the cases have the same names", {
        let (rows, count): (Vec<_>, _) = (rows.keys().copied().collect(), cases.len());
        move || same_names(&names, &rows, count)
    })];
    trials.push(Trial::test("the comparison sees one wrong bit", one_wrong_bit));
    for case in cases {
        let truth = rows.get(case.name.as_str()).copied();
        let counts = Arc::clone(&counts);
        trials.push(Trial::test(case.name.clone(), move || {
            let result = check(&case, truth);
            let family = case.name.split('/').next().unwrap_or_default().to_owned();
            let mut counts = counts.lock().map_err(|_| "a trial panicked")?;
            let count = counts.entry(family).or_default();
            count.0 += usize::from(result.is_ok());
            count.1 += 1;
            result
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Ok(counts) = counts.lock() {
        for (family, (agree, all)) in counts.iter() {
            println!("{family}: {agree} of {all} forms agree with the table");
        }
    }
    conclusion.exit_code()
}

fn same_names(names: &BTreeSet<String>, rows: &[&str], cases: usize) -> Result<(), Failed> {
    if names.len() != cases {
        return Err("two cases have the same name".into());
    }
    let missing: Vec<_> = names.iter().filter(|name| !rows.contains(&name.as_str())).collect();
    let extra: Vec<_> = rows.iter().filter(|&&row| !names.contains(row)).collect();
    if !missing.is_empty() || !extra.is_empty() {
        return Err(
            format!("cases without a row: {missing:?}; rows without a case: {extra:?}").into()
        );
    }
    Ok(())
}

/// An output agrees with itself, and no longer with one bit of it changed, hashed or not; where a
/// tolerance is given, a change within it is accepted and the next larger one is not.
fn one_wrong_bit() -> Result<(), Failed> {
    let mut case = cases::words("comparison", 32, "", "");
    for length in [64, 4096] {
        case.output = cases::random_bytes("comparison", length);
        let truth = table::entry(&case, &case.output);
        table::agrees(&case, &truth, &case.output)?;
        let mut wrong = case.output.clone();
        wrong[length - 1] ^= 1;
        if table::agrees(&case, &truth, &wrong).is_ok() {
            return Err(format!("a wrong bit of {length} bytes passed").into());
        }
    }
    case.compare = Compare::Near { format: Format::F32, relative: 0.0, absolute: 0.25 };
    let truth = table::hex(&1f32.to_le_bytes());
    for (value, agrees) in [(1.25_f32, true), (1.26, false), (f32::NAN, false), (0.75, true)] {
        if table::agrees(&case, &truth, &value.to_le_bytes()).is_ok() != agrees {
            return Err(format!("{value} beside 1").into());
        }
    }
    Ok(())
}

fn check(case: &Case, truth: Option<&str>) -> Result<(), Failed> {
    let truth = truth.ok_or("the table has no such row")?;
    let output = execute(case).map_err(|error| error.to_string());
    let Some(reason) = case.refused else {
        return Ok(table::agrees(case, truth, &output?)?);
    };
    if !(truth.starts_with('!') && truth.ends_with("CUDA_ERROR_ILLEGAL_INSTRUCTION")) {
        return Err("the GPU did not refuse this".into());
    }
    match output {
        Err(report) if report.contains(reason) => Ok(()),
        Err(report) => Err(format!("another report: {report}").into()),
        Ok(_) => Err("no report".into()),
    }
}

fn execute(case: &Case) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut machine = Machine::new(Arch::Sm90a);
    let module = machine.load(&case.ptx)?;
    let kernel = machine.kernel(module, "test").ok_or("no entry `test`")?;
    let input = machine.allocate(case.input.len().max(1) as u64)?;
    machine.write(input, &case.input)?;
    let output = machine.allocate(case.output.len().max(1) as u64)?;
    machine.write(output, &case.output)?;
    let mut parameters = Vec::new();
    parameters.extend(input.to_le_bytes());
    parameters.extend(output.to_le_bytes());
    for map in &case.maps {
        parameters.resize(parameters.len().next_multiple_of(64), 0);
        let address = match map.buffer {
            Buffer::Input => input,
            Buffer::Output => output,
        };
        parameters.extend(tensor_map(map, address)?);
    }
    let config = LaunchConfig {
        grid: case.grid,
        block: case.block,
        cluster: case.cluster,
        dynamic_shared_bytes: case.dynamic_shared_bytes,
    };
    machine.launch(kernel, &config, &parameters)?;
    let mut found = vec![0; case.output.len()];
    machine.read(output, &mut found)?;
    Ok(found)
}

fn tensor_map(map: &Map, buffer: u64) -> Result<[u8; 128], Box<dyn std::error::Error>> {
    let tiled = TiledMap {
        data_type: *TensorDataType::ALL.get(map.data_type as usize).ok_or("no such type")?,
        address: buffer + map.offset,
        extents: map.extents.clone(),
        strides: map.strides.clone(),
        tile: map.tile.clone(),
        element_strides: map.element_strides.clone(),
        interleave: *Interleave::ALL.get(map.interleave as usize).ok_or("no such interleave")?,
        swizzle: *Swizzle::ALL.get(map.swizzle as usize).ok_or("no such swizzle")?,
        l2_promotion: L2Promotion::None,
        fill: *OutOfBoundsFill::ALL.get(map.fill as usize).ok_or("no such fill")?,
    };
    Ok(*TensorMap::encode_tiled(&tiled, Arch::Sm90a)?.as_bytes())
}
