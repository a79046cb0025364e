//! Streams, memory, graphs and failures, with a kernel of three instructions. What the shipped
//! kernels compute is for the conformance table.

use std::sync::Arc;

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::{Status, status};
use grouped_linear_kernels::variants::{Kernel, Role, kernel};
use ptx_emulator::Arch;

use super::EmulatorOptions;
use super::gpu::{Gpu, REPLACED_MODULES, REPLACED_MODULES_KEPT};
use super::queue::EmulatedQueue;
use crate::backend::{Launcher, Queue, lock};
use crate::error::{Error, Result};
use crate::functional::{self, CastArgs};
use crate::launch::Launches;
use crate::plan::KernelTarget;
use crate::tensor::{DType, GroupedTensor, Memory, ParamLayout, Tensor};
use crate::{Device, Stream, interop, ptx};

fn setup_kernel() -> &'static Kernel {
    kernel(Role::PointerSetup).expect("a row of the kernel table")
}

/// A module whose kernel stores 7 where the first word of its arguments says.
fn storing_module() -> String {
    let row = setup_kernel();
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n\
         .visible .entry {}(.param .align 16 .b8 args[{}])\n.reqntid {}, 1, 1\n\
         {{\n.reg .pred %p<2>;\n.reg .b32 %r<2>;\n.reg .b64 %rd<3>;\n\
         mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra DONE;\n\
         ld.param.b64 %rd1, [args];\ncvta.to.global.u64 %rd2, %rd1;\nst.global.b32 [%rd2], 7;\n\
         DONE:\nret;\n}}\n",
        row.name, row.args_bytes, row.threads
    )
}

fn gpu_with(module: String) -> Arc<Gpu> {
    let mut options = EmulatorOptions::new(Arch::Sm90a);
    options.replaced_modules = vec![(setup_kernel().module.to_string(), module)];
    Arc::new(Gpu::new(options).expect("sound options"))
}

fn gpu() -> Arc<Gpu> {
    gpu_with(storing_module())
}

/// Launches the kernel with this address; the launch itself must succeed.
fn store(queue: &EmulatedQueue, address: u64) -> Result<()> {
    let mut args = vec![0; setup_kernel().args_bytes];
    args[..8].copy_from_slice(&address.to_le_bytes());
    let mut launches = Launches::default();
    launches.push(setup_kernel(), [1, 1], &args)?;
    queue.submit(&launches)
}

fn bytes(queue: &EmulatedQueue, memory: &Memory) -> Result<[u8; 8]> {
    let mut bytes = [0; 8];
    queue.download(memory, 0, &mut bytes)?;
    Ok(bytes)
}

fn holding(queue: &EmulatedQueue, bytes: [u8; 8]) -> Result<Memory> {
    let memory = queue.allocate(8)?;
    queue.upload(&memory, 0, &bytes)?;
    Ok(memory)
}

const STORED: [u8; 8] = [7, 0, 0, 0, 1, 1, 1, 1];

#[test]
fn work_is_done_in_the_order_of_the_calls() -> Result<()> {
    let gpu = gpu();
    let (first, second) = (EmulatedQueue::new(&gpu)?, EmulatedQueue::new(&gpu)?);
    let (from, to) = (holding(&first, [1; 8])?, holding(&first, [2; 8])?);
    store(&first, from.address())?;
    let event = first.record_event()?;
    second.wait_event(&*event)?;
    second.copy((&to, 0), (&from, 0), 8)?;
    second.fill_zero(&from, 6, 2)?;
    assert_eq!(bytes(&second, &to)?, STORED);
    assert_eq!(bytes(&first, &from)?, [7, 0, 0, 0, 1, 1, 0, 0]);
    let later = second.record_event()?;
    event.elapsed_until(&*later)?;
    assert!(later.elapsed_until(&*event).is_err_and(|error| error.is_invalid_argument()));
    Ok(())
}

#[test]
fn replaced_modules_are_known_by_their_texts() -> Result<()> {
    // More texts than are kept, so that some are read again, and each on several GPUs in a row.
    for value in (10_u8..30).chain(10..30) {
        for _ in 0..2 {
            let gpu = gpu_with(storing_module().replace("], 7;", &format!("], {value};")));
            let queue = EmulatedQueue::new(&gpu)?;
            let memory = holding(&queue, [1; 8])?;
            store(&queue, memory.address())?;
            assert_eq!(bytes(&queue, &memory)?, [value, 0, 0, 0, 1, 1, 1, 1]);
        }
    }
    assert_eq!(lock(&REPLACED_MODULES).len(), REPLACED_MODULES_KEPT);
    Ok(())
}

#[test]
fn what_launches_did_is_counted() -> Result<()> {
    let gpu = gpu();
    let queue = EmulatedQueue::new(&gpu)?;
    let memory = holding(&queue, [1; 8])?;
    for count in 1..3 {
        store(&queue, memory.address())?;
        let statistics = gpu.statistics();
        assert_eq!(statistics.global_bytes, 4 * count);
        assert_eq!(statistics.instructions["st.global.b32"].threads, count);
    }
    store(&queue, 0)?;
    assert_eq!(gpu.statistics().global_bytes, 8, "of a launch that failed nothing is counted");
    Ok(())
}

#[test]
fn a_failed_kernel_stops_its_device_and_no_other() -> Result<()> {
    let gpu = gpu();
    let (queue, beside) = (EmulatedQueue::new(&gpu)?, EmulatedQueue::new(&gpu)?);
    let (memory, other) = (holding(&queue, [1; 8])?, holding(&queue, [2; 8])?);
    let graph = {
        queue.begin_capture()?;
        queue.fill_zero(&memory, 0, 8)?;
        queue.end_capture()?
    };
    store(&queue, 0).expect("as on a GPU, the launch is not what fails");

    type Call<'a> = &'a dyn Fn() -> Result<()>;
    let calls: [(&str, Call<'_>); 13] = [
        ("synchronize", &|| queue.synchronize()),
        ("synchronize again", &|| queue.synchronize()),
        ("synchronize another stream", &|| beside.synchronize()),
        ("allocate", &|| queue.allocate(8).map(drop)),
        ("upload", &|| queue.upload(&memory, 0, &[0; 8])),
        ("download", &|| bytes(&queue, &memory).map(drop)),
        ("copy", &|| queue.copy((&other, 0), (&memory, 0), 8)),
        ("zero", &|| queue.fill_zero(&memory, 0, 8)),
        ("launch", &|| store(&queue, memory.address())),
        ("event", &|| queue.record_event().map(drop)),
        ("capture", &|| queue.begin_capture()),
        ("replay", &|| graph.launch(&queue)),
        ("new stream", &|| EmulatedQueue::new(&gpu).map(drop)),
    ];
    for (name, call) in calls {
        let error = call().expect_err(name);
        let (text, report) = (error.to_string(), error.emulator_report());
        assert!(text.contains("kernel pointer_setup on a grid of 1 x 1 blocks"), "{name}: {text}");
        assert!(report.is_some_and(|report| text.ends_with(report)), "{name}: {text}");
    }
    let mut unread = [0; 8];
    assert!(gpu.read(other.address(), &mut unread).is_err());

    let queue = EmulatedQueue::new(&self::gpu())?;
    let memory = holding(&queue, [1; 8])?;
    store(&queue, memory.address())?;
    assert_eq!(bytes(&queue, &memory)?, STORED);
    Ok(())
}

#[test]
fn a_graph_repeats_its_work_and_holds_its_memory() -> Result<()> {
    let gpu = gpu();
    let (queue, elsewhere) = (EmulatedQueue::new(&gpu)?, EmulatedQueue::new(&gpu)?);
    let (middle, end) = (holding(&queue, [1; 8])?, holding(&queue, [2; 8])?);
    let address = middle.address();
    queue.begin_capture()?;
    assert!(queue.is_capturing() && !elsewhere.is_capturing());
    store(&queue, address)?;
    queue.copy((&end, 0), (&middle, 0), 8)?;
    let graph = queue.end_capture()?;
    assert!(!queue.is_capturing());
    assert_eq!(bytes(&queue, &middle)?, [1; 8], "recorded, not run");
    drop(middle);
    for replayed_on in [&queue, &elsewhere] {
        graph.launch(replayed_on)?;
        assert_eq!(bytes(replayed_on, &end)?, STORED);
        queue.fill_zero(&end, 0, 8)?;
    }
    drop(graph);
    assert!(gpu.read(address, &mut [0; 8]).is_err(), "freed with the graph");
    Ok(())
}

#[test]
fn a_failure_inside_a_graph_is_told_afterwards() -> Result<()> {
    let queue = EmulatedQueue::new(&gpu())?;
    let memory = holding(&queue, [1; 8])?;
    queue.begin_capture()?;
    store(&queue, 0)?;
    queue.fill_zero(&memory, 0, 8)?;
    let graph = queue.end_capture()?;
    queue.synchronize()?;
    graph.launch(&queue)?;
    assert!(queue.synchronize().is_err_and(|error| error.emulator_report().is_some()));
    Ok(())
}

#[test]
fn a_capture_refuses_what_a_gpu_refuses() -> Result<()> {
    let queue = EmulatedQueue::new(&gpu())?;
    let memory = holding(&queue, [1; 8])?;
    let event = queue.record_event()?;
    let graph = {
        queue.begin_capture()?;
        queue.end_capture()?
    };
    queue.begin_capture()?;
    type Call<'a> = &'a dyn Fn() -> Result<()>;
    let calls: [(&str, Call<'_>); 10] = [
        ("allocate", &|| queue.allocate(8).map(drop)),
        ("upload", &|| queue.upload(&memory, 0, &[0; 8])),
        ("download", &|| bytes(&queue, &memory).map(drop)),
        ("addresses", &|| queue.address_table(&[]).map(drop)),
        ("synchronize", &|| queue.synchronize()),
        ("record an event", &|| queue.record_event().map(drop)),
        ("wait for an event", &|| queue.wait_event(&*event)),
        ("capture", &|| queue.begin_capture()),
        ("replay", &|| graph.launch(&queue)),
        ("more scratch memory than before", &|| queue.workspace((64 << 10) + 1).map(drop)),
    ];
    for (name, call) in calls {
        assert!(call().is_err_and(|error| error.is_unsupported()), "{name}");
    }
    queue.workspace(64 << 10)?;
    queue.end_capture()?;
    // A stream that was asked for scratch memory has it at the next capture.
    queue.begin_capture()?;
    queue.workspace((64 << 10) + 1)?;
    queue.end_capture()?;
    assert!(queue.end_capture().is_err_and(|error| error.is_invalid_argument()));
    Ok(())
}

#[test]
fn memory_goes_with_its_last_handle() -> Result<()> {
    let gpu = gpu();
    let queue = EmulatedQueue::new(&gpu)?;
    let memory = holding(&queue, [1; 8])?;
    let (address, again) = (memory.address(), memory.clone());
    drop(memory);
    assert_eq!(bytes(&queue, &again)?, [1; 8]);
    drop(again);
    assert!(gpu.read(address, &mut [0; 8]).is_err());
    store(&queue, address)?;
    assert!(queue.synchronize().is_err(), "a kernel that uses freed memory fails");
    Ok(())
}

#[test]
fn scratch_memory_has_the_size_asked_for_and_is_new_each_time() -> Result<()> {
    let gpu = gpu();
    let queue = EmulatedQueue::new(&gpu)?;
    let first = queue.workspace(100)?;
    gpu.write(first, &[1; 100])?;
    assert!(gpu.write(first, &[1; 101]).is_err());
    let second = queue.workspace(100)?;
    gpu.write(second, &[1; 100])?;
    assert!(first == second || gpu.write(first, &[1; 100]).is_err());
    Ok(())
}

#[test]
fn bad_splits_are_told_once_where_they_were_found() -> Result<()> {
    let gpu = gpu();
    let (queue, other) = (EmulatedQueue::new(&gpu)?, EmulatedQueue::new(&gpu)?);
    let set = |address: u64| {
        let found =
            Status { code: status::NEGATIVE_SPLIT, group: 3, value: -2, ..Status::default() };
        gpu.write(address, bytes_of(&found))
    };
    let told = |queue: &EmulatedQueue| -> Option<String> {
        let error = queue.synchronize().err()?;
        assert!(error.is_bad_splits(), "{error}");
        queue.synchronize().expect("told once");
        Some(error.to_string())
    };
    set(queue.sticky_status())?;
    assert_eq!(told(&other), None);
    assert!(told(&queue).is_some_and(|text| text.contains("group 3 has -2 rows")));

    // A graph has a block of its own, which the stream of the replay reads.
    queue.begin_capture()?;
    let recorded = queue.sticky_status();
    let graph = queue.end_capture()?;
    assert_ne!(recorded, queue.sticky_status());
    set(recorded)?;
    assert_eq!(told(&queue), None);
    graph.launch(&other)?;
    assert!(told(&other).is_some());
    assert_eq!(told(&other), None);
    Ok(())
}

#[test]
fn a_module_that_does_not_load_says_why() -> Result<()> {
    for (module, part) in [
        ("no PTX".to_string(), "the emulator refuses the replaced PTX"),
        (storing_module().replace("pointer_setup", "another"), "it has no kernel pointer_setup"),
    ] {
        let queue = EmulatedQueue::new(&gpu_with(module))?;
        let text = store(&queue, 0).expect_err(part).to_string();
        assert!(text.contains("PTX module setup could not be loaded"), "{text}");
        assert!(text.contains(part), "{text}");
        queue.synchronize().expect("the device has not failed");
    }
    Ok(())
}

#[test]
fn every_device_is_a_machine_of_its_own() -> Result<()> {
    let streams: Vec<Stream> =
        (0..2).map(|_| Device::emulated(Arch::Sm90a)?.stream()).collect::<Result<_>>()?;
    assert_ne!(streams[0].device().id(), streams[1].device().id());
    let tensor = Tensor::zeros(&streams[0], &[4], DType::F32)?;
    let error = tensor.to_f32(&streams[1]).expect_err("another device's memory");
    assert!(error.is_invalid_argument(), "{error}");

    let mut options = EmulatorOptions::new(Arch::Sm90a);
    options.multiprocessors = 0;
    let refused = Device::emulated_with(options);
    assert!(refused.is_err_and(|error: Error| error.is_invalid_argument()));
    Ok(())
}

#[test]
fn raw_handles_of_emulated_devices_are_refused() -> Result<()> {
    let device = Device::emulated(Arch::Sm90a)?;
    let stream = device.stream()?;
    let tensor = Tensor::zeros(&stream, &[4], DType::F32)?;
    assert_eq!(interop::device_address(&tensor), None);
    assert_eq!(interop::raw_stream(&stream), None);
    let refused = crate::cuda_modules(&device).expect_err("no CUDA device");
    assert!(refused.is_invalid_argument(), "{refused}");
    assert!(refused.to_string().contains("a CUDA device is needed"), "{refused}");
    Ok(())
}

fn cast_into(stream: &Stream, values: &[f32], destination: &mut Tensor) -> Result<()> {
    let shape = [values.len()];
    let source = GroupedTensor::from_slice(stream, ParamLayout::Packed, 1, &shape, values)?;
    functional::cast(stream, &CastArgs { source: &source, skip: None }, destination)
}

#[test]
fn each_architecture_runs_its_own_modules() -> Result<()> {
    for (arch, capability) in [(Arch::Sm90a, (9, 0)), (Arch::Sm100a, (10, 0))] {
        let device = Device::emulated(arch)?;
        assert_eq!(device.info().compute_capability, Some(capability));
        assert!(device.info().name.contains(arch.name()), "{}", device.info().name);
        assert!(device.target().tensor_cores());
        let stream = device.stream()?;
        let values = [1.0, -2.5, 0.3];
        let mut cast = Tensor::from_f32(&stream, &[1, 3], DType::Bf16, &[0.0; 3])?;
        cast_into(&stream, &values, &mut cast)?;
        stream.synchronize()?;
        assert_eq!(cast.to_f32(&stream)?, [1.0, -2.5, 0.300_781_25]);
    }
    Ok(())
}

#[test]
fn modules_of_another_architecture_are_not_loaded() -> Result<()> {
    let mut options = EmulatorOptions::new(Arch::Sm90a);
    let blackwell = ptx::module(KernelTarget::Sm100a, "quantize")?;
    options.replaced_modules = vec![("quantize".to_owned(), blackwell.ptx.to_owned())];
    let stream = Device::emulated_with(options)?.stream()?;
    let mut cast = Tensor::from_f32(&stream, &[1, 1], DType::Bf16, &[0.0])?;
    let refused = cast_into(&stream, &[1.0], &mut cast);
    let text = refused.expect_err("another architecture").to_string();
    assert!(text.contains("sm_100a"), "{text}");
    Ok(())
}
