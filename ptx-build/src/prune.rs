//! Removes what no entry point uses.
//!
//! The kernel crate is compiled as a library, so the compiler also writes every public function of
//! it, a `Debug` implementation for one, with calls into `core` that nothing would resolve.

use std::collections::{HashMap, HashSet};

use crate::text::function_name;

/// The text without the functions and variables that no entry point reaches.
pub(crate) fn prune(ptx: &str) -> String {
    let items = split(ptx);
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut reached: Vec<usize> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match removable_name(item) {
            Some(name) => by_name.entry(name).or_default().push(index),
            None => reached.push(index),
        }
    }
    let mut kept: HashSet<usize> = reached.iter().copied().collect();
    while let Some(index) = reached.pop() {
        for word in items[index].lines().flat_map(|line| words(code(line))) {
            for &used in by_name.get(word).into_iter().flatten() {
                if kept.insert(used) {
                    reached.push(used);
                }
            }
        }
    }
    let kept_items = items.iter().enumerate().filter(|(index, _)| kept.contains(index));
    kept_items.map(|(_, item)| *item).collect()
}

fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'))
}

/// The text cut after each declaration or definition; comments go with what follows them.
fn split(ptx: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let (mut start, mut end, mut depth) = (0, 0, 0i32);
    let (mut function, mut directive) = (false, false);
    for line in ptx.split_inclusive('\n') {
        end += line.len();
        let code = code(line).trim_end();
        for character in code.chars() {
            depth += i32::from(character == '{') - i32::from(character == '}');
        }
        function |= code.contains(".func") || code.contains(".entry");
        directive |= [".version", ".target", ".address_size"].iter().any(|d| code.starts_with(d));
        let closed = code.ends_with(';') || directive || (function && code.ends_with('}'));
        if depth == 0 && closed {
            items.push(&ptx[start..end]);
            (start, function, directive) = (end, false, false);
        }
    }
    items.push(&ptx[start..]);
    items
}

/// The name of an item that may go if nothing uses it: a function, or a variable that the host
/// cannot see.
fn removable_name(item: &str) -> Option<&str> {
    let head = item.lines().map(code).find(|code| !code.trim().is_empty())?;
    if head.contains(".entry") {
        return None;
    }
    if let Some((_, declaration)) = item.split_once(".func") {
        return Some(function_name(declaration)).filter(|name| !name.is_empty());
    }
    let variable = head.starts_with(".global") || head.starts_with(".const");
    let before = head.split(['[', '=', ';']).next()?;
    before.split_whitespace().last().filter(|_| variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "\
//
// Generated
//

.version 8.6
.target sm_90a
.address_size 64

.extern .func used_extern
(
\t.param .b64 used_extern_param_0
)
;
.extern .func unused_extern
(
\t.param .b64 unused_extern_param_0
)
;
.extern .shared .align 1024 .b8 shared[];
.global .align 8 .u64 vtable[2] = {0, unused};
.global .align 4 .b8 table[4] = {0, 1, 2, 3};
.visible .global .align 4 .u32 seen_by_the_host;

.func helper(
\t.param .b64 helper_param_0
)
{
\t{ // callseq 0, 0
\tcall.uni used_extern, (param0);
\t}
\tret;
}
\t// .globl unused
.visible .func  (.param .b32 func_retval0) unused(
\t.param .b64 unused_param_0
)
{
\tcall.uni unused_extern, (param0); // helper
\tret;
}
\t// .globl kernel
.visible .entry kernel(
\t.param .align 16 .b8 kernel_param_0[32]
)
{
\t// unused stands in a comment
\tmov.b64 %rd1, table;
\tcall.uni helper, (param0);
\tret;
}
";

    #[test]
    fn what_no_entry_reaches_goes_and_the_rest_stays() {
        let pruned = prune(WRITTEN);
        for gone in ["unused_extern", "vtable", "unused("] {
            assert!(!pruned.contains(gone), "{gone} is left in\n{pruned}");
        }
        let stays =
            ["used_extern\n(", "shared[]", "table[4] =", "seen_by_the_host", "func helper("];
        for kept in stays {
            assert!(pruned.contains(kept), "{kept} is missing in\n{pruned}");
        }
        assert!(pruned.starts_with("//\n// Generated\n//\n\n.version 8.6\n.target sm_90a\n"));
        assert!(pruned.ends_with("\tcall.uni helper, (param0);\n\tret;\n}\n"));
    }

    #[test]
    fn items_put_together_again_are_the_text() {
        assert_eq!(split(WRITTEN).concat(), WRITTEN);
        assert_eq!(split(WRITTEN).len(), 13);
    }
}
