//! Completes the compiler's text with what rustc cannot express.

use std::collections::HashSet;

use crate::error::{Error, Kind};
use crate::text::{EntryText, entries};

/// What a table of kernels says of one entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name in the PTX.
    pub name: String,
    /// Threads per block, exactly.
    pub threads: u32,
    /// Blocks that a multiprocessor shall be able to hold at once, at least 1: what registers are
    /// allotted for.
    pub blocks_per_multiprocessor: u32,
    /// Blocks of a cluster, in x, exactly; 1: the kernel says nothing of clusters.
    pub cluster: u32,
    /// Bytes of its one by-value struct parameter; 0: it has no parameter.
    pub parameter_bytes: usize,
    /// Alignment that the parameter shall have; rustc gives at most 16, tensor maps need 64.
    pub parameter_align: usize,
}

/// Adds launch bounds (`.reqntid`, `.minnctapersm`, `.reqnctapercluster` where there are clusters)
/// to every entry point and aligns its parameter. Without launch bounds ptxas ignores `setmaxnreg`
/// and allots registers for blocks of any size.
///
/// # Errors
///
/// If an entry point of the table is missing in the text, or one of the text in the table; if
/// bounds are there already; if the parameter is not one struct of the stated size.
pub fn finish(ptx: &str, table: &[Entry]) -> Result<String, Error> {
    let found = entries(ptx);
    let names: HashSet<&str> = found.iter().map(|entry| entry.name.as_str()).collect();
    if let Some(row) = table.iter().find(|row| !names.contains(row.name.as_str())) {
        return Err(Kind::MissingEntry { name: row.name.clone() }.into());
    }
    let mut finished = String::with_capacity(ptx.len() + 64 * found.len());
    let mut copied = 0;
    for entry in &found {
        let row = table.iter().find(|row| row.name == entry.name);
        let row = row.ok_or_else(|| Kind::UnknownEntry { name: entry.name.clone() })?;
        finished.push_str(&ptx[copied..entry.parameters.start]);
        finished.push_str(&aligned_parameter(ptx, entry, row)?);
        finished.push_str(&ptx[entry.parameters.end..entry.directives.start]);
        finished.push_str(&bounds(ptx, entry, row)?);
        copied = entry.directives.start;
    }
    finished.push_str(&ptx[copied..]);
    Ok(finished)
}

fn bounds(ptx: &str, entry: &EntryText, row: &Entry) -> Result<String, Error> {
    let present = &ptx[entry.directives.clone()];
    for directive in [".reqntid", ".maxntid", ".minnctapersm", ".reqnctapercluster"] {
        if present.contains(directive) {
            return Err(Kind::BoundsPresent { name: entry.name.clone(), directive }.into());
        }
    }
    let (threads, blocks) = (row.threads, row.blocks_per_multiprocessor);
    let cluster = match row.cluster {
        0 | 1 => String::new(),
        blocks => format!("\n.reqnctapercluster {blocks}, 1, 1"),
    };
    Ok(format!("\n.reqntid {threads}, 1, 1\n.minnctapersm {blocks}{cluster}"))
}

/// The parameter list with the alignment of its one struct raised to what the table says.
fn aligned_parameter(ptx: &str, entry: &EntryText, row: &Entry) -> Result<String, Error> {
    let list = &ptx[entry.parameters.clone()];
    if row.parameter_bytes == 0 && list.trim().is_empty() {
        return Ok(list.into());
    }
    let unknown = || Kind::EntryForm {
        name: entry.name.clone(),
        reason: format!(
            "its parameter list is `{}`, not `.param .align A .b8 {}_param_0[N]`",
            list.trim(),
            entry.name
        ),
    };
    let (align, bytes) = parse_parameter(list.trim(), &entry.name).ok_or_else(unknown)?;
    if bytes != row.parameter_bytes {
        let name = entry.name.clone();
        return Err(Kind::ParameterSize { name, asked: row.parameter_bytes, found: bytes }.into());
    }
    let wanted = align.max(row.parameter_align);
    Ok(list.replacen(&format!(".align {align} "), &format!(".align {wanted} "), 1))
}

/// Alignment and bytes of `.param .align A .b8 <entry>_param_0[N]`.
fn parse_parameter(parameter: &str, entry: &str) -> Option<(usize, usize)> {
    let rest = parameter.strip_prefix(".param .align ")?;
    let (align, rest) = rest.split_once(' ')?;
    let name = rest.strip_prefix(".b8 ")?.strip_prefix(entry)?;
    let bytes = name.strip_prefix("_param_0[")?.strip_suffix(']')?;
    Some((align.parse().ok()?, bytes.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "\
.version 8.6
.target sm_90a

.visible .entry scale(
\t.param .align 16 .b8 scale_param_0[368]
)
{
\tld.param.b64 %rd1, [scale_param_0+256];
\tret;
}
.func helper(
\t.param .align 16 .b8 helper_param_0[32]
)
{
\tret;
}
.visible .entry shift(
\t.param .align 8 .b8 shift_param_0[24]
)
{
\tret;
}
";

    const FINISHED: &str = "\
.version 8.6
.target sm_90a

.visible .entry scale(
\t.param .align 64 .b8 scale_param_0[368]
)
.reqntid 384, 1, 1
.minnctapersm 1
{
\tld.param.b64 %rd1, [scale_param_0+256];
\tret;
}
.func helper(
\t.param .align 16 .b8 helper_param_0[32]
)
{
\tret;
}
.visible .entry shift(
\t.param .align 64 .b8 shift_param_0[24]
)
.reqntid 32, 1, 1
.minnctapersm 3
.reqnctapercluster 2, 1, 1
{
\tret;
}
";

    fn entry(name: &str, threads: u32, bytes: usize) -> Entry {
        let (parameter_bytes, parameter_align) = (bytes, 64);
        let (blocks_per_multiprocessor, cluster) = (1, 1);
        let name = name.into();
        Entry {
            name,
            threads,
            blocks_per_multiprocessor,
            cluster,
            parameter_bytes,
            parameter_align,
        }
    }

    fn refused(ptx: &str, table: &[Entry]) -> String {
        finish(ptx, table).unwrap_err().to_string()
    }

    #[test]
    fn bounds_and_alignment_are_written_and_nothing_else_changes() {
        let shift = Entry { blocks_per_multiprocessor: 3, cluster: 2, ..entry("shift", 32, 24) };
        let table = [shift, entry("scale", 384, 368)];
        assert_eq!(finish(WRITTEN, &table).unwrap(), FINISHED);
    }

    #[test]
    fn an_alignment_is_never_lowered() {
        let row = Entry { parameter_align: 4, ..entry("k", 32, 24) };
        let ptx = ".visible .entry k(\n\t.param .align 8 .b8 k_param_0[24]\n)\n{\n}\n";
        assert!(finish(ptx, &[row]).unwrap().contains(".align 8 .b8 k_param_0[24]"));
    }

    #[test]
    fn missing_and_unknown_entries_are_refused() {
        let scale = entry("scale", 384, 368);
        let table = [scale.clone(), entry("shift", 32, 24), entry("absent", 32, 8)];
        assert!(refused(WRITTEN, &table).contains("names entry point absent"));
        assert!(refused(WRITTEN, &[scale]).contains("defines entry point shift"));
    }

    #[test]
    fn finishing_twice_is_refused() {
        let table = [entry("scale", 384, 368), entry("shift", 32, 24)];
        assert!(refused(FINISHED, &table).contains("scale has a .reqntid already"));
    }

    #[test]
    fn a_parameter_of_another_size_or_kind_is_refused() {
        let sizes = [entry("scale", 384, 360), entry("shift", 32, 24)];
        assert!(refused(WRITTEN, &sizes).contains("has 368 bytes in the PTX and 360"));
        let scalar = ".visible .entry k(\n\t.param .b64 k_param_0\n)\n{\n}\n";
        assert!(refused(scalar, &[entry("k", 32, 8)]).contains("not in the form"));
        let none = ".visible .entry k()\n{\n}\n";
        assert!(refused(none, &[entry("k", 32, 8)]).contains("not in the form"));
        assert!(finish(none, &[entry("k", 32, 0)]).unwrap().contains(".reqntid 32, 1, 1"));
    }
}
