//! Counts instructions in PTX text.

use crate::text::entries;

/// Name and body of every entry point, in order, without comments. Functions that an entry point
/// calls are not part of its body.
pub fn entry_bodies(ptx: &str) -> Vec<(String, String)> {
    let uncommented = |body: &str| {
        let lines = body.lines().map(|line| line.split("//").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    };
    entries(ptx).into_iter().map(|entry| (entry.name, uncommented(&ptx[entry.body]))).collect()
}

/// How many instructions of a body start with `prefix`: `wgmma.mma_async` counts those of every
/// shape and type. Loops count once, as written.
pub fn count(body: &str, prefix: &str) -> usize {
    let starts = body.match_indices(prefix);
    let word = |at: usize| body[..at].chars().next_back().is_none_or(|c| " \t\n;{}:".contains(c));
    starts.filter(|(at, _)| word(*at)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.visible .entry a(
)
{
\t.local .align 4 .b8 \t__local_depot0[12];
\t// begin inline asm: wgmma.mma_async here is a comment
\t{ wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1}, 1; wgmma.mma_async.x;
\twgmma.commit_group.sync.aligned; }
\t@%p1 wgmma.mma_async.y;
\tst.local.b32 [%rd1], 1;
}
.visible .entry b(
)
{
\tret;
}
";

    #[test]
    fn instructions_are_counted_per_entry_and_comments_are_not() {
        let bodies = entry_bodies(PTX);
        assert_eq!((bodies[0].0.as_str(), bodies[1].0.as_str()), ("a", "b"));
        assert_eq!(count(&bodies[0].1, "wgmma.mma_async"), 3);
        assert_eq!(count(&bodies[1].1, "wgmma.mma_async"), 0);
        assert_eq!(count(&bodies[1].1, "ret"), 1);
    }

    #[test]
    fn a_prefix_in_the_middle_of_a_word_does_not_count() {
        let body = &entry_bodies(PTX)[0].1;
        assert_eq!(count(body, "mma_async"), 0);
        assert_eq!(count(body, ".local"), 1);
        assert_eq!(count(body, "st.local"), 1);
    }
}
