//! Branches, calls, the stack, and instructions about the launch.

use crate::cases::{Case, Text, case, words};

pub fn cases() -> Vec<Case> {
    let mut cases = branches();
    cases.extend(calls());
    cases.extend(launch());
    cases
}

fn branches() -> Vec<Case> {
    let bodies = [
        (
            "bra over a divergent if",
            "    setp.lt.u32 %p1, %thread, 13;
    mov.u32 %x, 1;
    @%p1 bra LOW;
    add.u32 %x, %x, %thread;
    bra.uni DONE;
LOW:
    mul.lo.u32 %x, %thread, 100;
DONE:
    add.u32 %x, %x, 7;",
        ),
        (
            "a loop of different lengths",
            "    mov.u32 %x, 0;
    mov.u32 %r3, %thread;
NEXT:
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra DONE;
    mad.lo.u32 %x, %x, 3, %r3;
    sub.u32 %r3, %r3, 1;
    bra NEXT;
DONE:",
        ),
        (
            "brx.idx",
            "    rem.u32 %r3, %thread, 4;
TARGETS: .branchtargets ZERO, ONE, TWO, ZERO;
    brx.idx %r3, TARGETS;
ZERO:
    mov.u32 %x, 10;
    bra DONE;
ONE:
    mov.u32 %x, 20;
TWO:
    add.u32 %x, %thread, 30;
DONE:",
        ),
        (
            "nested blocks with registers and labels of their own",
            "    mov.u32 %x, 5;
    {
        .reg .b32 %x1, %r3;
        .reg .pred %p1;
        mov.u32 %r3, 3;
    L:
        sub.u32 %r3, %r3, 1;
        setp.ne.u32 %p1, %r3, 0;
        @%p1 bra L;
        mov.u32 %x1, %r3;
        add.u32 %x, %x, %x1;
    }
    {
        .reg .b32 %r3;
        .reg .pred %p1;
        mov.u32 %r3, 4;
    L:
        sub.u32 %r3, %r3, 1;
        add.u32 %x, %x, 1;
        setp.ne.u32 %p1, %r3, 0;
        @%p1 bra L;
    }",
        ),
        (
            "exit of some threads",
            "    mov.u32 %x, 9;
    mad.wide.u32 %d3, %thread, 4, %output;
    st.global.b32 [%d3], 77;
    setp.gt.u32 %p1, %thread, 10;
    @%p1 exit;
    vote.sync.ballot.b32 %x, 1, 0x7FF;",
        ),
        (
            "ret of some threads, then bar.sync",
            "    mov.u32 %x, 9;
    setp.gt.u32 %p1, %thread, 40;
    @%p1 ret;
    bar.sync 0;",
        ),
        (
            "pragma",
            "    .pragma \"nounroll\";
    mov.u32 %x, 3;",
        ),
        (
            "nanosleep.u32",
            "    nanosleep.u32 20;
    mov.u32 %x, 3;",
        ),
    ];
    bodies.into_iter().map(|(name, body)| words(&format!("control/{name}"), 64, "", body)).collect()
}

fn calls() -> Vec<Case> {
    let functions = [
        (
            "call.uni",
            ".func (.param .b32 result) twice(.param .b32 value)
{
    .reg .b32 %r<2>;
    ld.param.b32 %r0, [value];
    add.u32 %r1, %r0, %r0;
    st.param.b32 [result], %r1;
    ret;
}",
            "    {
        .param .b32 param0;
        .param .b32 retval0;
        st.param.b32 [param0], %thread;
        call.uni (retval0), twice, (param0);
        ld.param.b32 %x, [retval0];
    }",
        ),
        (
            "a divergent call of a recursive function",
            ".func (.param .b32 result) fibonacci(.param .b32 value);
.func (.param .b32 result) fibonacci(.param .b32 value)
{
    .reg .b32 %r<8>;
    .reg .pred %p<2>;
    ld.param.b32 %r0, [value];
    setp.lt.u32 %p0, %r0, 2;
    mov.b32 %r3, %r0;
    @%p0 bra DONE;
    sub.u32 %r1, %r0, 1;
    {
        .param .b32 param0;
        .param .b32 retval0;
        st.param.b32 [param0], %r1;
        call (retval0), fibonacci, (param0);
        ld.param.b32 %r2, [retval0];
    }
    sub.u32 %r1, %r0, 2;
    {
        .param .b32 param0;
        .param .b32 retval0;
        st.param.b32 [param0], %r1;
        call (retval0), fibonacci, (param0);
        ld.param.b32 %r3, [retval0];
    }
    add.u32 %r3, %r3, %r2;
DONE:
    st.param.b32 [result], %r3;
    ret;
}",
            "    rem.u32 %r3, %thread, 9;
    mov.u32 %x, 0;
    setp.eq.u32 %p1, %r3, 5;
    @%p1 bra SKIP;
    {
        .param .b32 param0;
        .param .b32 retval0;
        st.param.b32 [param0], %r3;
        call (retval0), fibonacci, (param0);
        ld.param.b32 %x, [retval0];
    }
SKIP:",
        ),
        (
            "an indirect call through a table",
            ".func (.param .b32 result) first(.param .b32 value)
{
    .reg .b32 %r<2>;
    ld.param.b32 %r0, [value];
    add.u32 %r1, %r0, 1000;
    st.param.b32 [result], %r1;
    ret;
}
.func (.param .b32 result) second(.param .b32 value)
{
    .reg .b32 %r<2>;
    ld.param.b32 %r0, [value];
    mul.lo.u32 %r1, %r0, 7;
    st.param.b32 [result], %r1;
    ret;
}
.global .align 8 .u64 functions[2] = {first, second};",
            "    and.b32 %r3, %thread, 1;
    mov.b64 %d1, functions;
    mad.wide.u32 %d1, %r3, 8, %d1;
    ld.global.b64 %d2, [%d1];
    {
        .param .b32 param0;
        .param .b32 retval0;
        st.param.b32 [param0], %thread;
        prototype_1 : .callprototype (.param .b32 _) _ (.param .b32 _);
        call (retval0), %d2, (param0), prototype_1;
        ld.param.b32 %x, [retval0];
    }",
        ),
        (
            "a call with structures",
            ".func (.param .align 16 .b8 result[16]) swap(.param .align 8 .b8 pair[16], .param .b64 more)
{
    .reg .b64 %d<4>;
    ld.param.v2.b64 {%d0, %d1}, [pair];
    ld.param.b64 %d2, [more];
    add.u64 %d0, %d0, %d2;
    st.param.v2.b64 [result], {%d1, %d0};
    ret;
}",
            "    add.u64 %d1, %wide, 5;
    {
        .param .align 8 .b8 param0[16];
        .param .b64 param1;
        .param .align 16 .b8 retval0[16];
        st.param.b64 [param0], %wide;
        st.param.b64 [param0+8], %d1;
        st.param.b64 [param1], 300;
        call.uni (retval0), swap, (param0, param1);
        ld.param.v2.b64 {%d2, %d3}, [retval0];
    }
    shl.b64 %d3, %d3, 8;
    add.u64 %d2, %d2, %d3;
    cvt.u32.u64 %x, %d2;",
        ),
        (
            "local memory by name, local and generic address",
            "",
            "    .local .align 8 .b8 __local_depot0[64];
    .reg .b64 %SP, %SPL;
    mov.b64 %SPL, __local_depot0;
    cvta.local.u64 %SP, %SPL;
    st.local.b32 [%SPL+4], %thread;
    mul.lo.u32 %r3, %thread, 3;
    st.b32 [%SP+8], %r3;
    st.local.b8 [__local_depot0+12], %thread;
    and.b32 %r4, %thread, 1;
    mad.wide.u32 %d1, %r4, 4, %SP;
    ld.b32 %x, [%d1+4];
    ld.local.u8 %r5, [%SPL+12];
    cvta.to.local.u64 %d2, %SP;
    ld.local.b32 %r6, [%d2+8];
    add.u32 %x, %x, %r5;
    add.u32 %x, %x, %r6;",
        ),
        (
            "a pointer to the caller's local memory",
            ".func fill(.param .b64 target)
{
    .reg .b64 %d<1>;
    ld.param.b64 %d0, [target];
    st.b32 [%d0], 11;
    st.b32 [%d0+4], 22;
    ret;
}",
            "    .local .align 8 .b8 depot[8];
    mov.b64 %d1, depot;
    cvta.local.u64 %d1, %d1;
    {
        .param .b64 param0;
        st.param.b64 [param0], %d1;
        call.uni fill, (param0);
    }
    ld.local.v2.b32 {%r3, %r4}, [depot];
    mad.lo.u32 %x, %r3, 100, %r4;",
        ),
    ];
    functions
        .into_iter()
        .map(|(name, module, body)| words(&format!("control/{name}"), 64, module, body))
        .collect()
}

fn launch() -> Vec<Case> {
    let mut cases = Vec::new();
    let body = "    griddepcontrol.wait;
    griddepcontrol.launch_dependents;
    mov.u32 %x, 5;";
    cases.push(words("control/griddepcontrol", 32, "", body));
    let body = "    setp.lt.u32 %p1, %thread, 128;
    @%p1 bra FEW;
    setmaxnreg.inc.sync.aligned.u32 96;
    mov.u32 %r3, 1;
    bra DONE;
FEW:
    setmaxnreg.dec.sync.aligned.u32 32;
    mov.u32 %r3, 2;
DONE:
    mad.lo.u64 %d1, %wide, 4, %output;
    st.global.b32 [%d1], %r3;";
    let text =
        Text { directives: ".reqntid 256\n.minnctapersm 1\n.maxnreg 64", body, ..Text::default() };
    let text = Text { directives: ".reqntid 256\n.maxnreg 64", ..text };
    let mut setmaxnreg = case("control/setmaxnreg", &text, Vec::new(), 1024);
    setmaxnreg.block = [256, 1, 1];
    cases.push(setmaxnreg);
    cases
}
