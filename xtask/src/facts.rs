//! The committed table of what each kernel uses: a ratchet against spills and lost instructions,
//! and what must hold of machine code.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use grouped_linear_kernels::variants::{KERNELS, Kernel, Target};
use ptx_build::{
    Assembled, Function, MachineCode, Manifest, ManifestModule, Nvdisasm, Ptxas, Report, count,
    entry_bodies,
};
use rayon::prelude::*;

use crate::commands::{self, read};
use crate::kernels;
use crate::recipe::{self, Shipped};

/// Columns before those of instructions.
const FIRST_COLUMNS: [&str; 5] = ["kernel", "target", "registers", "stack bytes", "spill bytes"];

/// Instructions that are counted for a target: what the column is called, and how they begin.
type Counted = &'static [(&'static str, &'static str)];

const HOPPER: Counted =
    &[("wgmma", WARPGROUP_PRODUCT), ("bulk tensor copies", "cp.async.bulk.tensor")];

const BLACKWELL: Counted = &[
    ("tcgen05.mma", "tcgen05.mma"),
    ("tcgen05.cp", "tcgen05.cp"),
    ("tcgen05.ld", "tcgen05.ld"),
    ("tcgen05.commit", "tcgen05.commit"),
    ("bulk tensor copies", "cp.async.bulk.tensor"),
];

/// What multiplies on tensor cores.
const PRODUCTS: [&str; 2] = [WARPGROUP_PRODUCT, "tcgen05.mma"];

const WARPGROUP_PRODUCT: &str = "wgmma.mma_async";

/// What ptxas makes of it: of 16 bits, and of 8.
const WARPGROUP_OPCODES: [&str; 2] = ["HGMMA", "QGMMA"];

/// Columns that another ptxas may change without anything being wrong: registers, stack bytes.
const VERSIONED_COLUMNS: [usize; 2] = [2, 3];

/// What looks at kernels.
struct Tools {
    ptxas: Ptxas,
    nvdisasm: Nvdisasm,
}

impl Tools {
    fn find() -> Result<Self> {
        Ok(Self { ptxas: Ptxas::find()?, nvdisasm: Nvdisasm::find()? })
    }
}

/// Writes the table.
pub fn write(root: &Path) -> Result<()> {
    let tools = Tools::find()?;
    let text = document(tools.ptxas.version(), &rows(root, &tools)?);
    print!("{text}");
    commands::write(&file(root), &text)
}

/// Compares the table with what ptxas and the PTX say now.
pub fn check(root: &Path) -> Result<()> {
    let tools = Tools::find()?;
    let committed = read(&file(root))?;
    let version = parse_version(&committed).context("facts.md does not name its ptxas")?;
    let fresh = rows(root, &tools)?;
    let committed = parse_rows(&committed);
    let ptxas = tools.ptxas.version();
    if version == ptxas {
        compare(&committed, &fresh, &[])?;
        println!("{} kernels: all facts hold, ptxas {ptxas}", fresh.len());
    } else {
        compare(&committed, &fresh, &VERSIONED_COLUMNS)?;
        println!("note: the table is of ptxas {version}, this one is {ptxas}:");
        println!("  registers and stack bytes are NOT compared");
        println!("{} kernels: spills, instructions and shared memory hold", fresh.len());
    }
    Ok(())
}

fn file(root: &Path) -> PathBuf {
    kernels::folder(root).join("facts.md")
}

fn document(version: &str, rows: &[Vec<String>]) -> String {
    let mut text = format!(
        "# Kernel facts\n\n\
         Written by `cargo xtask facts`, compared by `cargo xtask facts --check`.\n\
         Registers, stack and spills are those of ptxas {version}; \
         instructions are counted in the PTX, loops once.\n"
    );
    for Shipped { architecture, target, .. } in recipe::TARGETS {
        text.push_str(&format!("\n## {}\n\n{}", target.cpu, header(*architecture)));
        for row in rows.iter().filter(|row| row[1] == target.cpu) {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
    }
    text
}

fn counted(architecture: Target) -> Counted {
    match architecture {
        Target::Sm90a => HOPPER,
        Target::Sm100a => BLACKWELL,
    }
}

/// Names of the columns, and the line below them: numbers stand on the right.
fn header(architecture: Target) -> String {
    let instructions = counted(architecture).iter().map(|(name, _)| *name);
    let columns = FIRST_COLUMNS.into_iter().chain(instructions).chain(["dynamic shared bytes"]);
    let columns: Vec<&str> = columns.collect();
    let numbers = " ---: |".repeat(columns.len() - 2);
    format!("| {} |\n| --- | --- |{numbers}\n", columns.join(" | "))
}

fn parse_version(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("those of ptxas ")?;
    after.split(';').next()
}

fn parse_rows(text: &str) -> Vec<Vec<String>> {
    let is_row = |line: &&str| {
        line.starts_with('|') && !line.starts_with("| kernel |") && !line.starts_with("| --- |")
    };
    text.lines()
        .filter(is_row)
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// Rows must be equal, but for the columns left out.
fn compare(committed: &[Vec<String>], fresh: &[Vec<String>], left_out: &[usize]) -> Result<()> {
    let kept = |row: &Vec<String>| -> Vec<String> {
        let cells = row.iter().enumerate().filter(|(column, _)| !left_out.contains(column));
        cells.map(|(_, cell)| cell.clone()).collect()
    };
    let (old, new): (Vec<_>, Vec<_>) =
        (committed.iter().map(kept).collect(), fresh.iter().map(kept).collect());
    if old == new {
        return Ok(());
    }
    let mut message = String::from("the kernel facts changed; if that is meant: cargo xtask facts");
    for row in old.iter().filter(|row| !new.contains(row)) {
        message.push_str(&format!("\n  committed: {}", row.join(" | ")));
    }
    for row in new.iter().filter(|row| !old.contains(row)) {
        message.push_str(&format!("\n  now:       {}", row.join(" | ")));
    }
    bail!(message)
}

/// The facts of every shipped kernel, in the order of the table.
fn rows(root: &Path, tools: &Tools) -> Result<Vec<Vec<String>>> {
    let manifest = Manifest::parse(&read(&kernels::folder(root).join("manifest.toml"))?)?;
    let of_modules = manifest.modules.par_iter().map(|module| module_rows(root, tools, module));
    Ok(of_modules.collect::<Result<Vec<_>>>()?.concat())
}

fn module_rows(root: &Path, tools: &Tools, module: &ManifestModule) -> Result<Vec<Vec<String>>> {
    let ptx = read(&kernels::path(root, &module.target, &module.name))?;
    let Assembled { report, cubin } = tools.ptxas.assemble(&ptx, &module.target)?;
    let named = format!("{}/{}", module.target, module.name);
    ensure!(report.remarks.is_empty(), "ptxas on {named}:\n{}", report.remarks.join("\n"));
    let bodies = entry_bodies(&ptx);
    let codes = tools.nvdisasm.disassemble(&cubin)?;
    let shipped = recipe::TARGETS.iter().find(|shipped| shipped.target.cpu == module.target);
    let shipped = shipped.with_context(|| format!("nothing is shipped for {named}"))?;
    let mut rows = Vec::new();
    let of_module =
        |kernel: &&Kernel| kernel.module == module.name && kernel.runs_on(shipped.architecture);
    for kernel in KERNELS.iter().filter(of_module) {
        let body = bodies.iter().find(|(name, _)| name == kernel.name);
        let (name, body) = body.with_context(|| format!("{named} lacks {}", kernel.name))?;
        let found = report.entry(name).with_context(|| format!("ptxas passes over {name}"))?;
        check_accumulators(found, body)?;
        if count(body, WARPGROUP_PRODUCT) != 0 {
            let code = codes.iter().find(|code| code.name == *name);
            check_together(code.with_context(|| format!("nvdisasm passes over {name}"))?)?;
        }
        rows.push(row(kernel, shipped, found, body));
    }
    check_spills(&named, &report)?;
    Ok(rows)
}

fn row(kernel: &Kernel, shipped: &Shipped, found: &Function, body: &str) -> Vec<String> {
    let mut cells = vec![
        kernel.name.into(),
        shipped.target.cpu.into(),
        found.registers.unwrap_or_default().to_string(),
        found.stack_bytes.to_string(),
        found.spill_bytes.to_string(),
    ];
    let instructions = counted(shipped.architecture).iter();
    cells.extend(instructions.map(|(_, prefix)| count(body, prefix).to_string()));
    cells.push(kernel.shared_bytes.to_string());
    cells
}

/// A GEMM never spills, nor does a function that kernels call.
fn check_spills(module: &str, report: &Report) -> Result<()> {
    for function in &report.functions {
        let (name, spills) = (&function.name, function.spill_bytes);
        let must_not = name.starts_with("gemm") || function.registers.is_none();
        ensure!(!must_not || spills == 0, "{module}: {name} spills {spills} bytes");
    }
    Ok(())
}

/// A kernel that multiplies on tensor cores and has a stack has lost its accumulators to memory, or
/// what it loads of them; one with a trap may lose its register budget, since ptxas then ignores
/// `setmaxnreg` (docs/kernels.md).
fn check_accumulators(kernel: &Function, body: &str) -> Result<()> {
    let Function { name, stack_bytes, .. } = kernel;
    if PRODUCTS.iter().all(|prefix| count(body, prefix) == 0) {
        return Ok(());
    }
    ensure!(
        *stack_bytes == 0,
        "{name} keeps {stack_bytes} bytes on the stack; its accumulators belong in registers"
    );
    let traps = count(body, "trap");
    ensure!(traps == 0, "{name} can trap in {traps} places; a panic path is left in its Rust code");
    Ok(())
}

/// Warps that multiply on Hopper stay together. If what a loop asks might part a warpgroup's
/// threads, ptxas has them yield at the head of each loop inside, and takes descriptors from
/// registers of threads (docs/kernels.md); behind the last product it may.
fn check_together(code: &MachineCode) -> Result<()> {
    let is_product = |opcode: &&str| WARPGROUP_OPCODES.iter().any(|name| opcode.starts_with(name));
    let opcodes: Vec<&str> = code.opcodes().collect();
    let last = opcodes.iter().rposition(is_product);
    let last = last.with_context(|| format!("{} has no product in machine code", code.name))?;
    let yields = opcodes[..last].iter().filter(|opcode| opcode.starts_with("YIELD")).count();
    ensure!(
        yields == 0,
        "{} yields in {yields} places before its last product: a condition in its loop of tiles \
         does not look the same for all threads of a warpgroup",
        code.name
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let rows = [
            row(["gemm", "sm_90a", "168", "0", "0", "16", "4", "196736"]),
            row(["cast", "sm_90a", "26", "0", "0", "0", "0", "0"]),
            row(["gemm", "sm_100a", "128", "0", "0", "4", "2", "8", "1", "4", "196736"]),
        ];
        let text = document("13.5.37", &rows);
        assert_eq!(parse_version(&text), Some("13.5.37"));
        assert_eq!(parse_rows(&text), rows);
        let headers = text.lines().filter(|line| line.starts_with("| kernel |"));
        let widths: Vec<usize> = headers.map(|line| line.matches('|').count() - 1).collect();
        assert_eq!(widths, [rows[0].len(), rows[2].len()]);
    }

    #[test]
    fn products_of_blackwell_are_counted() {
        let kernel = KERNELS.iter().find(|kernel| kernel.runs_on(Target::Sm100a));
        let (kernel, shipped) = (kernel.expect("a kernel"), &recipe::TARGETS[1]);
        let body = "\ttcgen05.mma.cta_group::1.kind::f16 [%r1], x;\n\ttcgen05.ld.sync y;\n\
                    \t@%p1 tcgen05.mma.cta_group::2.kind::f16 z;\n\ttcgen05.commit.w;\n";
        let cells = super::row(kernel, shipped, &Function::default(), body);
        assert_eq!(cells[1], "sm_100a");
        assert_eq!(cells[5..10], ["2", "0", "1", "1", "0"]);
    }

    #[test]
    fn another_ptxas_may_change_registers_and_nothing_else() {
        let old = [row(["gemm", "sm_90a", "168", "0", "0", "16", "4", "8"])];
        let registers = [row(["gemm", "sm_90a", "160", "0", "0", "16", "4", "8"])];
        let wgmma = [row(["gemm", "sm_90a", "168", "0", "0", "12", "4", "8"])];
        assert!(compare(&old, &old, &[]).is_ok());
        assert!(compare(&old, &registers, &[]).is_err());
        assert!(compare(&old, &registers, &VERSIONED_COLUMNS).is_ok());
        assert!(compare(&old, &wgmma, &VERSIONED_COLUMNS).is_err());
        assert!(compare(&old, &[], &VERSIONED_COLUMNS).is_err());
    }

    #[test]
    fn a_gemm_that_spills_is_refused_and_a_reduction_is_not() {
        let spilling = |name: &str, registers| Report {
            functions: vec![Function {
                name: name.into(),
                registers,
                spill_bytes: 8,
                ..Default::default()
            }],
            remarks: vec![],
        };
        assert!(check_spills("m", &spilling("gemm_sm90_fprop_bf16", Some(168))).is_err());
        assert!(check_spills("m", &spilling("a_called_function", None)).is_err());
        assert!(check_spills("m", &spilling("dbias_partial", Some(40))).is_ok());
    }

    #[test]
    fn a_stack_is_refused_beside_products_only() {
        let kernel = Function { stack_bytes: 16, registers: Some(168), ..Default::default() };
        assert!(check_accumulators(&kernel, "\twgmma.mma_async.sync x;").is_err());
        assert!(check_accumulators(&kernel, "\ttcgen05.mma.cta_group::1 x;").is_err());
        assert!(check_accumulators(&kernel, "\tfma.rn.f32 x;").is_ok());
    }

    #[test]
    fn a_trap_is_refused_beside_products_only() {
        let kernel = Function { registers: Some(168), ..Default::default() };
        assert!(check_accumulators(&kernel, "\twgmma.mma_async.sync x;\n\ttrap;").is_err());
        assert!(check_accumulators(&kernel, "\twgmma.mma_async.sync x;").is_ok());
        assert!(check_accumulators(&kernel, "\ttrap;").is_ok());
    }

    #[test]
    fn a_yield_is_refused_before_products_only() {
        let code = |opcodes: &[&str]| MachineCode {
            name: "gemm".into(),
            instructions: opcodes.iter().map(|opcode| format!("@P0 {opcode} x")).collect(),
        };
        for product in ["HGMMA.64x256x16.F32.BF16", "QGMMA.64x128x32.F32.E4M3.E4M3"] {
            assert!(check_together(&code(&["YIELD", product])).is_err());
            assert!(check_together(&code(&[product, "YIELD", "IADD3", product])).is_err());
            assert!(check_together(&code(&[product, product, "YIELD"])).is_ok());
        }
        assert!(check_together(&code(&["FADD", "YIELD"])).is_err(), "no product");
    }
}
