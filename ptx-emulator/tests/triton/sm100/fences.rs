//! The fences that Triton leaves out.

/// What orders a thread's instructions before what other threads do once they have met.
const BEFORE: &str = "\ttcgen05.fence::before_thread_sync;\n\tfence.proxy.async.shared::cta;\n";
/// What orders a thread's instructions after what other threads did before they met.
const AFTER: &str = "\ttcgen05.fence::after_thread_sync;\n";

/// Barriers, with whether threads wait there.
const MEETINGS: [(&str, bool); 6] = [
    ("bar.sync", true),
    ("bar.warp.sync", true),
    ("barrier.sync", true),
    ("barrier.cluster.arrive", false),
    ("barrier.cluster.wait", true),
    ("mbarrier.arrive", false),
];

/// The end of a loop that waits for an mbarrier.
const END_OF_WAIT: &str = "@!complete bra.uni waitLoop;";

/// The text with fences before each barrier, and behind each wait.
pub fn fenced(text: &str) -> String {
    let mut result = String::with_capacity(2 * text.len());
    for line in text.lines() {
        let instruction = line.split_whitespace().find(|word| !word.starts_with('@'));
        let name = instruction.unwrap_or_default();
        let meeting = MEETINGS.iter().find(|(barrier, _)| {
            // `bar.sync` is not `bar.sync_other`.
            let rest = name.strip_prefix(barrier);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        if meeting.is_some() {
            result.push_str(BEFORE);
        }
        result.push_str(line);
        result.push('\n');
        if meeting.is_some_and(|(_, waits)| *waits) || line.trim() == END_OF_WAIT {
            result.push_str(AFTER);
        }
    }
    result
}

#[test]
fn fences_stand_before_barriers_and_behind_waits() {
    let text = "\tbar.sync \t0;\n\t@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1], 1;\n\
                \t@!complete bra.uni waitLoop;\n\tmov.u32 %r1, %r2;\n";
    let expected = format!(
        "{BEFORE}\tbar.sync \t0;\n{AFTER}{BEFORE}\
         \t@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1], 1;\n\
         \t@!complete bra.uni waitLoop;\n{AFTER}\tmov.u32 %r1, %r2;\n"
    );
    assert_eq!(fenced(text), expected);
}
