//! Where things stand in PTX text.

use std::ops::Range;

/// Byte ranges of one entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryText {
    pub name: String,
    /// Between the parentheses.
    pub parameters: Range<usize>,
    /// After the closing parenthesis, before the opening brace: performance directives.
    pub directives: Range<usize>,
    /// Between the braces.
    pub body: Range<usize>,
}

/// Every entry point of the text, in order. An entry without a body is left out.
pub(crate) fn entries(ptx: &str) -> Vec<EntryText> {
    let mut found = Vec::new();
    let mut offset = 0;
    for line in ptx.split_inclusive('\n') {
        let words = line.split("//").next().unwrap_or_default();
        if let Some(at) = words.find(".entry ") {
            found.extend(entry_at(ptx, offset + at + ".entry ".len()));
        }
        offset += line.len();
    }
    found
}

fn entry_at(ptx: &str, name_at: usize) -> Option<EntryText> {
    let open = name_at + ptx[name_at..].find(['(', '{'])?;
    let name = ptx[name_at..open].trim().to_owned();
    let (parameters, after) = if ptx[open..].starts_with('(') {
        let close = open + ptx[open..].find(')')?;
        (open + 1..close, close + 1)
    } else {
        (open..open, open)
    };
    let brace = after + ptx[after..].find('{')?;
    let end = closing_brace(ptx, brace)?;
    Some(EntryText { name, parameters, directives: after..brace, body: brace + 1..end })
}

/// The brace that closes the one at `open`; comments do not count.
fn closing_brace(ptx: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    let mut offset = open;
    for line in ptx[open..].split_inclusive('\n') {
        let code = line.split("//").next().unwrap_or_default();
        for (at, character) in code.char_indices() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => continue,
            }
            if depth == 0 {
                return Some(offset + at);
            }
        }
        offset += line.len();
    }
    None
}

/// The name of a function, given what follows `.func` in its declaration.
pub(crate) fn function_name(declaration: &str) -> &str {
    let mut rest = declaration.trim_start();
    if rest.starts_with('(') {
        rest = rest.split_once(')').map_or("", |(_, after)| after).trim_start();
    }
    let end = rest.find(|c: char| c.is_whitespace() || "(;".contains(c)).unwrap_or(rest.len());
    &rest[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\
// .entry in a comment (
.visible .entry first(
\t.param .align 16 .b8 first_param_0[32]
)
{
\t{ // callseq } 0
\t}
\tret;
}
.visible .entry second()
.reqntid 32, 1, 1
{ ret; }
";

    #[test]
    fn entries_are_found_with_their_parts() {
        let found = entries(TWO);
        let names: Vec<_> = found.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["first", "second"]);
        assert!(TWO[found[0].parameters.clone()].contains("first_param_0[32]"));
        assert!(TWO[found[0].body.clone()].trim_end().ends_with("ret;"));
        assert_eq!(TWO[found[1].directives.clone()].trim(), ".reqntid 32, 1, 1");
        assert_eq!(&TWO[found[1].body.clone()], " ret; ");
    }

    #[test]
    fn function_names_with_and_without_result() {
        assert_eq!(function_name("  (.param .b32 r) vprintf\n("), "vprintf");
        assert_eq!(function_name(" plain(\n"), "plain");
        assert_eq!(function_name(" bare\n;"), "bare");
    }
}
