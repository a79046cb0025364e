//! Every case on a CUDA device, through the driver. Each runs in a child process that dies with
//! it when it fails, since a context does not survive a fault of a kernel.

use std::ffi::c_void;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cudarc::driver::sys;

use crate::cases::{Buffer, Case, Map};
use crate::table;

/// Longer than any case takes, with its module's compilation.
const PATIENCE: Duration = Duration::from_secs(15);

/// Runs all cases and writes the table to `path`.
pub fn record(cases: &[Case], path: &str) -> ExitCode {
    let mut rows: Vec<String> = Vec::new();
    let mut header = Vec::new();
    while rows.len() < cases.len() {
        let before = rows.len();
        let reason = match follow(before, &mut rows, &mut header, cases.len()) {
            Ok(()) if rows.len() == cases.len() => break,
            Ok(()) => "the process ended".to_owned(),
            Err(reason) => reason,
        };
        // The child says itself when the driver refuses; otherwise the case after its last row
        // is the one that ended it.
        let told = rows.last().is_some_and(|row| row.contains("\t!")) && rows.len() > before;
        if !told {
            rows.push(format!("{}\t!{reason}", cases[rows.len()].name));
        }
        eprintln!("{}", rows[rows.len() - 1]);
        if rows.len() == 1 && header.is_empty() {
            eprintln!("no device");
            return ExitCode::FAILURE;
        }
    }
    let failed = rows.iter().filter(|row| row.contains("\t!")).count();
    println!("{} rows, {failed} without an output", rows.len());
    let text = header.join("\n") + "\n" + &rows.join("\n") + "\n";
    match std::fs::write(path, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Collects the rows of one child, which starts at case `first`.
fn follow(
    first: usize,
    rows: &mut Vec<String>,
    header: &mut Vec<String>,
    count: usize,
) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(["--record-from", &first.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("no pipe")?;
    let (sender, receiver) = channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut result = Ok(());
    loop {
        match receiver.recv_timeout(PATIENCE) {
            Ok(line) if line.starts_with('#') => {
                if first == 0 {
                    header.push(line);
                }
            }
            Ok(line) => rows.push(line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                result = Err(format!("no answer within {} s", PATIENCE.as_secs()));
                let _ = child.kill();
                break;
            }
        }
        if rows.len() == count {
            break;
        }
    }
    let _ = child.wait();
    let _ = reader.join();
    result
}

/// The child: prints one row a case, and stops after the first that fails.
pub fn record_from(cases: &[Case], first: &str) -> ExitCode {
    let Ok(first) = first.parse::<usize>() else {
        return ExitCode::FAILURE;
    };
    let mut output = std::io::stdout().lock();
    let header = match open() {
        Ok(header) => header,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let _ = writeln!(output, "{header}");
    for case in cases.iter().skip(first) {
        let result = run(case);
        let entry = match &result {
            Ok(found) => table::entry(case, found),
            Err(reason) => format!("!{}", reason.replace(['\n', '\t'], " ")),
        };
        let _ = writeln!(output, "{}\t{entry}", case.name);
        let _ = output.flush();
        if result.is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn checked(result: sys::CUresult, call: &str) -> Result<(), String> {
    match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        error => Err(format!("{call}: {error:?}")),
    }
}

/// Makes the first device's primary context current and says what the device is.
fn open() -> Result<String, String> {
    // SAFETY: the function only tries to load the driver's library.
    if !unsafe { sys::is_culib_present() } {
        return Err("no CUDA driver".into());
    }
    let (mut device, mut version, mut name) = (0, 0, [0_u8; 128]);
    let mut context = std::ptr::null_mut();
    // SAFETY: all pointers are to locals of the types that the driver writes, and the length given
    // for the name is shorter than its array.
    unsafe {
        checked(sys::cuInit(0), "cuInit")?;
        checked(sys::cuDeviceGet(&mut device, 0), "cuDeviceGet")?;
        checked(sys::cuDeviceGetName(name.as_mut_ptr().cast(), 127, device), "cuDeviceGetName")?;
        checked(sys::cuDriverGetVersion(&mut version), "cuDriverGetVersion")?;
        checked(sys::cuDevicePrimaryCtxRetain(&mut context, device), "cuDevicePrimaryCtxRetain")?;
        checked(sys::cuCtxSetCurrent(context), "cuCtxSetCurrent")?;
    }
    let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
    let driver = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let driver = driver.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Ok(format!(
        "# Outputs of tests/truth, recorded on a GPU with `--record`; see main.rs.\n# date: {}\n\
         # gpu: {name}\n# driver: CUDA {}.{}; {}",
        date(seconds),
        version / 1000,
        version % 1000 / 10,
        driver.join(" ")
    ))
}

/// The day of a Unix time, by counting from 1 March of the year 0.
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let calendar = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(calendar <= 2);
    format!("{year:04}-{calendar:02}-{of_month:02}")
}

/// Device memory that is freed with the value.
struct Memory(sys::CUdeviceptr);

impl Memory {
    fn of(bytes: &[u8]) -> Result<Self, String> {
        let mut address = 0;
        // SAFETY: the driver writes one address to the local.
        checked(unsafe { sys::cuMemAlloc_v2(&mut address, bytes.len().max(1)) }, "cuMemAlloc")?;
        let memory = Self(address);
        if !bytes.is_empty() {
            // SAFETY: the allocation just made has the length of `bytes`.
            let result =
                unsafe { sys::cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()) };
            checked(result, "cuMemcpyHtoD")?;
        }
        Ok(memory)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the address came from `cuMemAlloc` and is freed once.
        let _ = unsafe { sys::cuMemFree_v2(self.0) };
    }
}

fn run(case: &Case) -> Result<Vec<u8>, String> {
    let text = format!("{}\0", case.ptx);
    let mut module = std::ptr::null_mut();
    let mut log = vec![0_u8; 4096];
    let mut options = [
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
        sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), (log.len() - 1) as *mut c_void];
    // SAFETY: the text ends with a zero, both arrays have the two elements announced, and the log
    // has the size given and outlives the call.
    let result = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            text.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    checked(result, "cuModuleLoadDataEx").map_err(|error| {
        let log = String::from_utf8_lossy(&log);
        format!("{error} {}", log.trim_end_matches('\0'))
    })?;
    let output = launch(case, module);
    // SAFETY: the module was loaded above, and the launch has been waited for.
    let unloaded = checked(unsafe { sys::cuModuleUnload(module) }, "cuModuleUnload");
    // The error of a kernel comes back from every later call too: the first says where it was.
    output.and_then(|output| unloaded.map(|()| output))
}

fn launch(case: &Case, module: sys::CUmodule) -> Result<Vec<u8>, String> {
    let mut function = std::ptr::null_mut();
    // SAFETY: the module is loaded and the name ends with a zero.
    let result = unsafe { sys::cuModuleGetFunction(&mut function, module, c"test".as_ptr()) };
    checked(result, "cuModuleGetFunction")?;
    if case.dynamic_shared_bytes > 0 {
        let attribute =
            sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to the loaded module.
        let result = unsafe {
            sys::cuFuncSetAttribute(function, attribute, case.dynamic_shared_bytes as i32)
        };
        checked(result, "cuFuncSetAttribute")?;
    }
    let (input, output) = (Memory::of(&case.input)?, Memory::of(&case.output)?);
    let mut maps = Vec::new();
    for map in &case.maps {
        let address = match map.buffer {
            Buffer::Input => input.0,
            Buffer::Output => output.0,
        };
        maps.push(encode(map, address)?);
    }
    let mut addresses = [input.0, output.0];
    let mut parameters: Vec<*mut c_void> =
        addresses.iter_mut().map(|address| std::ptr::from_mut(address).cast()).collect();
    parameters.extend(maps.iter_mut().map(|map| std::ptr::from_mut(map).cast::<c_void>()));
    let [x, y, z] = case.cluster;
    // SAFETY: zeros are a value of this plain C union.
    let mut value: sys::CUlaunchAttributeValue = unsafe { std::mem::zeroed() };
    value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
    let mut attribute = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value,
    };
    let config = sys::CUlaunchConfig {
        gridDimX: case.grid[0],
        gridDimY: case.grid[1],
        gridDimZ: case.grid[2],
        blockDimX: case.block[0],
        blockDimY: case.block[1],
        blockDimZ: case.block[2],
        sharedMemBytes: case.dynamic_shared_bytes,
        hStream: std::ptr::null_mut(),
        attrs: &mut attribute,
        numAttrs: u32::from(case.cluster != [1; 3]),
    };
    let mut found = vec![0_u8; case.output.len()];
    // SAFETY: the parameters are pointers to two addresses and to as many maps as the entry
    // declares, all of which live until the launch has been waited for; the output's allocation
    // has as many bytes as are copied.
    unsafe {
        let result =
            sys::cuLaunchKernelEx(&config, function, parameters.as_mut_ptr(), std::ptr::null_mut());
        checked(result, "cuLaunchKernelEx")?;
        checked(sys::cuCtxSynchronize(), "cuCtxSynchronize")?;
        if !found.is_empty() {
            let result = sys::cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), output.0, found.len());
            checked(result, "cuMemcpyDtoH")?;
        }
    }
    Ok(found)
}

fn encode(map: &Map, buffer: u64) -> Result<sys::CUtensorMap, String> {
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    // The driver wants an array even where there are no strides.
    let mut strides = map.strides.clone();
    strides.push(0);
    // SAFETY: the numbers of the cases are those of the driver's enumerations (types 0 to 12,
    // interleaves 0 to 2, swizzles 0 to 3, fills 0 and 1), which are plain integers in C; every
    // array has as many elements as the rank says.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            std::mem::transmute::<u32, sys::CUtensorMapDataType>(map.data_type),
            map.extents.len() as u32,
            (buffer + map.offset) as *mut c_void,
            map.extents.as_ptr(),
            strides.as_ptr(),
            map.tile.as_ptr(),
            map.element_strides.as_ptr(),
            std::mem::transmute::<u32, sys::CUtensorMapInterleave>(map.interleave),
            std::mem::transmute::<u32, sys::CUtensorMapSwizzle>(map.swizzle),
            sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_NONE,
            std::mem::transmute::<u32, sys::CUtensorMapFloatOOBfill>(map.fill),
        )
    };
    checked(result, "cuTensorMapEncodeTiled")?;
    Ok(encoded)
}
