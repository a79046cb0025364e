//! Launches, one by one and in sequences, and the modules that they load, against the fake driver.

use std::panic::AssertUnwindSafe;

use grouped_linear_kernels::variants::{KERNELS, Kernel, Role, kernel};

use super::super::stream::CudaStream;
use super::fake::{open, stream};
use crate::backend::{Launcher, Queue};
use crate::error::{Error, Result};
use crate::launch::{Launches, MOST};
use crate::tensor::{DType, Tensor};

/// Prepares kernels with these grids, whose first argument is 0xabcd, and hands them over.
fn submit(stream: &CudaStream, kernels: &[(&'static Kernel, [u32; 2])]) -> Result<()> {
    let mut launches = Launches::default();
    for (kernel, grid) in kernels {
        let mut args = vec![0u8; kernel.args_bytes];
        args[..8].copy_from_slice(&0xabcd_u64.to_ne_bytes());
        launches.push(kernel, *grid, &args)?;
    }
    stream.submit(&launches)
}

/// What the fake driver notes of a launch.
fn carried(kernel: &Kernel, x: u32, y: u32) -> String {
    let (threads, shared) = (kernel.threads, kernel.shared_bytes);
    format!("{x} x {y} blocks, {threads} threads, {shared} bytes, first argument abcd\n")
}

/// A kernel as it is, but for clusters of two blocks.
fn in_pairs(kernel: &Kernel) -> &'static Kernel {
    Box::leak(Box::new(Kernel { cluster: 2, ..*kernel }))
}

/// What the fake driver notes of their attribute.
const PAIRS: &str = "attribute 4: 2 x 1 x 1\n";

#[test]
fn launches_carry_what_the_table_says() {
    let (fake, context) = open("launch");
    let stream = stream(context);
    let setup = kernel(Role::PointerSetup).expect("the table has pointer_setup");
    submit(&stream, &[(setup, [1, 1])]).expect("a launch");
    submit(&stream, &[(setup, [3, 2])]).expect("a second launch");
    let name = setup.name;
    let line = |x, y| format!("launch {name} on 1: {}", carried(setup, x, y));
    assert_eq!(fake.notes(), format!("load\n{}{}", line(1, 1), line(3, 2)));

    submit(&stream, &[(setup, [0, 1])]).expect("an empty grid is no work");
    assert_eq!(fake.notes(), "");
    let error = Launches::default().push(setup, [1, 1], &[0; 8]).expect_err("wrong arguments");
    assert!(error.is_invalid_argument() && error.to_string().contains(name), "{error}");
    let error = submit(&stream, &[(setup, [1, 1]); MOST + 1]).expect_err("too many");
    assert!(error.is_invalid_argument() && fake.notes().is_empty(), "{error}");

    submit(&stream, &[(in_pairs(setup), [4, 1])]).expect("a launch with clusters");
    assert_eq!(fake.notes(), line(4, 1) + PAIRS);

    // Large shared memory is asked for once.
    let Some(large) = KERNELS.iter().find(|kernel| kernel.shared_bytes > 48 << 10) else { return };
    submit(&stream, &[(large, [1, 1])]).expect("a launch");
    submit(&stream, &[(large, [1, 1])]).expect("a launch");
    let asked = format!("{}: attribute 8 = {}\n", large.name, large.shared_bytes);
    assert_eq!(fake.notes().matches(&asked).count(), 1);
}

/// One graph for the kernels of an operation, made once for a stream and given new arguments.
#[test]
fn several_launches_are_one_graph() {
    let (fake, context) = open("sequence");
    let one = stream(context);
    let find = |role| kernel(role).expect("the table has it");
    let (setup, dscales) = (find(Role::PointerSetup), find(Role::Dscales));
    let set = |x| {
        let (first, second) = (carried(setup, 1, 1), carried(dscales, x, 1));
        format!("1 set {}: {first}2 set {}: {second}replay on 1\n", setup.name, dscales.name)
    };
    let both = |x| [(setup, [1, 1]), (dscales, [x, 1])];
    submit(&one, &both(5)).expect("two launches");
    let notes = fake.notes();
    let (first, second) = (carried(setup, 1, 1), carried(dscales, 5, 1));
    let made = format!("node 1: {}: {first}", setup.name);
    assert!(notes.contains(&made), "{notes}");
    assert!(
        notes.ends_with(&format!("node 2 after 1: {}: {second}{}", dscales.name, set(5))),
        "{notes}"
    );
    submit(&one, &both(7)).expect("two launches");
    assert_eq!(fake.notes(), set(7));

    // A capture records launches, and graphs of the stream cannot be part of it.
    one.begin_capture().expect("a capture");
    fake.notes();
    submit(&one, &both(7)).expect("recorded launches");
    assert_eq!(fake.notes().matches("launch ").count(), 2);
    drop(one.end_capture().expect("a graph"));
    fake.notes();

    // What fails half-way is given anew.
    fake.fail("cuGraphExecKernelNodeSetParams_v2", 1);
    assert_eq!(submit(&one, &both(9)).expect_err("a failure").driver_code(), Some(1));
    assert_eq!(fake.notes(), "");
    submit(&one, &both(9)).expect("two launches");
    assert_eq!(fake.notes(), set(9));

    // Another stream has its own graph, and both go with their streams.
    let two = stream(context);
    for failing in ["cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags"] {
        fake.fail(failing, 2);
        assert_eq!(submit(&two, &both(1)).expect_err(failing).driver_code(), Some(2));
    }
    submit(&two, &both(1)).expect("two launches");
    fake.notes();
    drop(two);
    assert_eq!(fake.notes(), "destroy 2\ndestroy graph\n");
    drop(one);
    assert_eq!(fake.notes(), "destroy 1\ndestroy graph\n");
}

/// Two operations that may overlap, and one that reads what they write.
#[test]
fn operations_are_handed_over_together() {
    let (fake, context) = open("together");
    let one = stream(context);
    let find = |role| kernel(role).expect("the table has it");
    let (setup, dscales) = (find(Role::PointerSetup), find(Role::Dscales));
    let operation = |x| submit(&one, &[(setup, [1, 1]), (dscales, [x, 1])]);
    let all = || -> Result<()> {
        operation(1)?;
        operation(2)?;
        one.next_stage();
        operation(3)
    };
    one.together(&mut || all()).expect("three operations");
    let notes = fake.notes();
    let nodes = |notes: &str| -> Vec<String> {
        let heads = notes.lines().filter_map(|line| line.split(": ").next());
        heads.filter(|head| head.starts_with("node ")).map(str::to_owned).collect()
    };
    let wanted = [
        "node 1",
        "node 2 after 1",
        "node 3 after 1",
        "node 4 after 3",
        "node 5 after 2, 4",
        "node 6 after 5",
    ];
    assert_eq!(nodes(&notes), wanted, "{notes}");
    assert!(notes.ends_with("replay on 1\n"), "{notes}");

    // With the same graph again, and with another where they depend on each other.
    one.together(&mut || all()).expect("three operations");
    let notes = fake.notes();
    assert!(!notes.contains("node") && notes.matches(" set ").count() == 6, "{notes}");
    let in_stages = || -> Result<()> {
        operation(1)?;
        one.next_stage();
        operation(2)?;
        operation(3)
    };
    one.together(&mut || in_stages()).expect("three operations");
    let notes = fake.notes();
    assert!(notes.contains("node 3 after 2:") && notes.contains("node 5 after 3:"), "{notes}");

    // In a capture, too, behind what was recorded before, and before what comes.
    one.begin_capture().expect("a capture");
    fake.notes();
    let recorded = || -> Result<()> {
        submit(&one, &[(setup, [1, 1])])?;
        one.together(&mut || operation(1).and_then(|()| operation(2)))?;
        submit(&one, &[(setup, [1, 1])])
    };
    recorded().expect("recorded operations");
    let notes = fake.notes();
    let wanted = [
        "node 1",
        "node 2 after 1",
        "node 3 after 2",
        "node 4 after 2",
        "node 5 after 4",
        "node 6 after 3, 5",
    ];
    assert_eq!(nodes(&notes), wanted, "{notes}");
    assert_eq!(notes.matches("launch ").count(), 6, "{notes}");
    // What comes behind a failure waits for all that has been recorded.
    fake.fail("cuStreamGetCaptureInfo_v2", 3);
    assert_eq!(recorded().expect_err("no list").driver_code(), Some(3));
    fake.notes();
    for failing in ["cuStreamUpdateCaptureDependencies", "cuStreamGetCaptureInfo_v2"] {
        fake.fail_behind(3, failing, 3);
        assert_eq!(recorded().expect_err(failing).driver_code(), Some(3));
        submit(&one, &[(setup, [1, 1])]).expect("a launch");
        let found = nodes(&fake.notes());
        let numbers: Vec<_> = found.iter().filter_map(|head| head.split(' ').nth(1)).collect();
        let &[first, second, third, fourth, _] = numbers.as_slice() else { panic!("{found:?}") };
        assert!(found[1].ends_with(&format!("after {first}")), "{found:?}");
        assert!(found[3].ends_with(&format!("after {second}")), "{found:?}");
        assert!(found[4].ends_with(&format!("after {third}, {fourth}")), "{found:?}");
    }
    drop(one.end_capture().expect("a graph"));
}

#[test]
fn what_operations_use_is_held_until_they_are_handed_over() {
    let (fake, context) = open("held");
    let one = stream(context);
    let setup = kernel(Role::PointerSetup).expect("the table has pointer_setup");
    let operation = || submit(&one, &[(setup, [1, 1])]);
    operation().expect("an operation");
    one.workspace(100).expect("scratch memory");
    fake.notes();
    let used = || -> Result<()> {
        let mut launches = Launches::default();
        launches.push(setup, [1, 1], &vec![0; setup.args_bytes])?;
        let id = one.device_id();
        launches.hold(Tensor::from_memory(one.allocate(7000)?, 0, &[7000], DType::U8, id));
        // Scratch memory of two operations, for which the stream's is too small at first.
        let [first, second] = [one.workspace(100)?, one.workspace(64 << 10)?];
        assert!(first.abs_diff(second) >= 256);
        one.submit(&launches)?;
        drop(launches);
        operation()
    };
    let freed = |notes: &str| notes.matches("free on").count();
    one.together(&mut || used()).expect("two operations");
    let notes = fake.notes();
    let (before, behind) = notes.split_once("replay on 1").expect("a replay");
    assert_eq!((freed(before), freed(behind)), (0, 2), "{notes}");

    // Nothing is launched of operations one of which cannot be prepared, and no later one is held
    // back.
    let failing = || used().and_then(|()| Err(Error::invalid("a refusal")));
    let error = one.together(&mut || failing()).expect_err("a refusal");
    assert!(error.is_invalid_argument(), "{error}");
    let nested = || used().and_then(|()| one.together(&mut || operation()));
    let error = one.together(&mut || nested()).expect_err("two batches");
    assert!(error.to_string().contains("together already"), "{error}");
    let panicking = || one.together(&mut || used().map(|()| panic!("on purpose")));
    assert!(std::panic::catch_unwind(AssertUnwindSafe(panicking)).is_err());
    let notes = fake.notes();
    assert!(!notes.contains("launch") && !notes.contains("replay"), "{notes}");
    assert_eq!(freed(&notes), 3, "{notes}");
    operation().expect("an operation");
    assert!(fake.notes().contains("launch"));
}

/// Clusters are an attribute of their node, which it keeps when it gets new arguments.
#[test]
fn launches_with_clusters_are_nodes_of_the_graph() {
    let (fake, context) = open("clusters");
    let one = stream(context);
    let find = |role| kernel(role).expect("the table has it");
    let (setup, dscales) = (find(Role::PointerSetup), find(Role::Dscales));
    let paired = in_pairs(dscales);
    let both = |x| [(setup, [1, 1]), (paired, [x, 1])];
    let (setup_name, name) = (setup.name, paired.name);
    let set = |x| {
        let (first, second) = (carried(setup, 1, 1), carried(paired, x, 1));
        format!("1 set {setup_name}: {first}2 set {name}: {second}replay on 1\n")
    };
    submit(&one, &both(4)).expect("two launches");
    let notes = fake.notes();
    let second = format!("node 2 after 1: {name}: {}", carried(paired, 4, 1));
    assert!(notes.ends_with(&format!("{second}2 has {PAIRS}{}", set(4))), "{notes}");
    assert_eq!(notes.matches("attribute").count(), 1, "{notes}");
    submit(&one, &both(6)).expect("two launches");
    assert_eq!(fake.notes(), set(6));

    // Beside operations without them, in one graph.
    let operations = || -> Result<()> {
        submit(&one, &[(setup, [1, 1]), (dscales, [5, 1])])?;
        one.next_stage();
        submit(&one, &both(4))
    };
    one.together(&mut || operations()).expect("two operations");
    let notes = fake.notes();
    assert!(notes.contains("node 3 after 2: ") && !notes.contains("launch "), "{notes}");
    assert!(notes.contains(&format!("4 has {PAIRS}")), "{notes}");
    assert_eq!(notes.matches("attribute").count(), 1, "{notes}");
    assert_eq!(notes.matches("replay on 1\n").count(), 1, "{notes}");

    // A capture records them with the launch.
    one.begin_capture().expect("a capture");
    fake.notes();
    one.together(&mut || operations()).expect("recorded operations");
    let notes = fake.notes();
    let last = format!("launch {name} on 1: {}{PAIRS}", carried(paired, 4, 1));
    assert!(notes.ends_with(&format!("node 4 after 3: {last}")), "{notes}");
    assert_eq!(notes.matches("attribute").count(), 1, "{notes}");
    drop(one.end_capture().expect("a graph"));

    // A graph whose node could not be given it is not kept.
    let two = stream(context);
    fake.fail("cuGraphKernelNodeSetAttribute", 2);
    assert_eq!(submit(&two, &both(4)).expect_err("no attribute").driver_code(), Some(2));
    let notes = fake.notes();
    assert!(!notes.contains(" set ") && !notes.contains("replay"), "{notes}");
    submit(&two, &both(4)).expect("two launches");
    let notes = fake.notes();
    assert!(
        notes.contains(&format!("2 has {PAIRS}")) && notes.ends_with("replay on 2\n"),
        "{notes}"
    );
}

#[test]
fn a_module_that_does_not_load_shows_the_log() {
    let (fake, context) = open("module");
    let stream = stream(context);
    let setup = kernel(Role::PointerSetup).expect("the table has pointer_setup");
    let launch = || submit(&stream, &[(setup, [1, 1])]);
    fake.fail("cuModuleLoadDataEx", 218);
    let text = launch().expect_err("no module").to_string();
    assert!(text.contains("218") && text.contains("ptxas fatal: fake"), "{text}");
    fake.fail("cuModuleGetFunction", 500);
    let text = launch().expect_err("no function").to_string();
    assert!(text.contains(setup.name), "{text}");
    launch().expect("the failures are not remembered");
}
