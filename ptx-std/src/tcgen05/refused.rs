//! What compiles as a product and what does not, as documentation tests: each row becomes one.
//!
//! A row that must not compile differs in one place from one that must, so that it cannot fail for
//! another reason; the error codes say whether a type (E0271, E0277) or an assertion (E0080)
//! refuses it, and are compared where the compiler is a nightly one.

macro_rules! rows {
    ($($name:ident $mode:literal $what:literal:
       $kind:ty, $group:ty, $a:ty, $b:ty, $m:literal, $n:literal;)+) => {$(
        #[doc = concat!(
            "```", $mode, "\n",
            "use ptx_std::tcgen05::*;\n",
            "type K<E> = Matrix<E, KMajor>;\n",
            "type Mn<E> = Matrix<E, MnMajor>;\n",
            "#[derive(Clone, Copy)]\n",
            "struct Row;\n",
            "impl Product for Row {\n",
            "    type Kind = ", stringify!($kind), ";\n",
            "    type Group = ", stringify!($group), ";\n",
            "    type A = ", stringify!($a), ";\n",
            "    type B = ", stringify!($b), ";\n",
            "    const M: u32 = ", stringify!($m), ";\n",
            "    const N: u32 = ", stringify!($n), ";\n",
            "}\n",
            "const INSTRUCTION: Instruction<Row> = Instruction::new();\n",
            "type A = Descriptor<<Row as Product>::A>;\n",
            "type B = Descriptor<<Row as Product>::B>;\n",
            "fn call(d: Address, a: A, b: B) {\n",
            "    let _ = INSTRUCTION;\n    ", $what, "\n",
            "}\n",
            "let _: fn(_, _, _) = call;\n",
            "```"
        )]
        struct $name;
    )+};
}

rows!(
    BrainPlain "" "": F16, One, K<Brain>, Mn<Brain>, 128, 16;
    BrainSmall "" "": F16, One, K<Brain>, Mn<Brain>, 64, 256;
    BrainOtherRows "compile_fail,E0080" "": F16, One, K<Brain>, Mn<Brain>, 96, 256;
    BrainTooHigh "compile_fail,E0080" "": F16, One, K<Brain>, Mn<Brain>, 256, 256;
    BrainNarrow "compile_fail,E0080" "": F16, One, K<Brain>, Mn<Brain>, 64, 8;
    BrainWide "compile_fail,E0080" "": F16, One, K<Brain>, Mn<Brain>, 64, 272;
    BrainNone "compile_fail,E0080" "": F16, One, K<Brain>, Mn<Brain>, 64, 0;
    BrainWithHalf "compile_fail,E0080" "": F16, One, K<Half>, Mn<Brain>, 64, 256;
    BrainWithEight "compile_fail,E0277" "": F16, One, K<E4m3>, Mn<Brain>, 64, 256;

    PairLow "" "": F16, Two, K<Half>, K<Half>, 128, 48;
    PairTooLow "compile_fail,E0080" "": F16, Two, K<Half>, K<Half>, 64, 48;

    EightsMixed "" "": F8f6f4, One, Mn<E5m2>, K<E2m1>, 128, 128;
    EightsAcross "compile_fail,E0277" "": F8f6f4, One, Mn<E5m2>, Mn<E2m1>, 128, 128;
    EightsWithHalf "compile_fail,E0277" "": F8f6f4, One, Mn<Half>, K<E2m1>, 128, 128;

    PairBytes "" "": F8f6f4, Two, K<E4m3>, Mn<E4m3>, 256, 96;
    PairBytesNarrow "compile_fail,E0080" "": F8f6f4, Two, K<E4m3>, Mn<E4m3>, 256, 80;
    PairBytesAlong "" "": F8f6f4, Two, K<E4m3>, K<E4m3>, 256, 80;

    Scaled "" "": Mxf8f6f4, One, K<E4m3>, Mn<E5m2>, 128, 128;
    ScaledLow "compile_fail,E0080" "": Mxf8f6f4, One, K<E4m3>, Mn<E5m2>, 64, 128;
    ScaledPair "" "": Mxf8f6f4, Two, K<E4m3>, Mn<E5m2>, 256, 128;
    ScaledPairLow "compile_fail,E0080" "": Mxf8f6f4, Two, K<E4m3>, Mn<E5m2>, 128, 128;

    Fours "" "": Nvfp4, Two, K<E2m1>, K<E2m1>, 256, 128;
    FoursUneven "compile_fail,E0080" "": Nvfp4, Two, K<E2m1>, K<E2m1>, 256, 120;
    FoursAcross "compile_fail,E0277" "": Nvfp4, Two, K<E2m1>, Mn<E2m1>, 256, 128;
    FoursWithEight "compile_fail,E0277" "": Nvfp4, Two, K<E2m1>, K<E4m3>, 256, 128;
);

// Calls: of the right function, with operands where they belong.
rows!(
    Call "" "unsafe { multiply::<Row>(d, a, b, true) }":
        F16, One, K<Brain>, Mn<Brain>, 128, 64;
    CallExchanged "compile_fail,E0308" "unsafe { multiply::<Row>(d, b, a, true) }":
        F16, One, K<Brain>, Mn<Brain>, 128, 64;
    CallWithoutScales "compile_fail,E0277" "unsafe { multiply::<Row>(d, a, b, true) }":
        Nvfp4, One, K<E2m1>, K<E2m1>, 128, 64;
    CallScaled "" "unsafe { multiply_scaled::<Row>(d, a, b, INSTRUCTION, [d, d], true) }":
        Nvfp4, One, K<E2m1>, K<E2m1>, 128, 64;
    CallFromTensor "" "let _ = a; unsafe { multiply_from_tensor::<Row>(d, d, b, true) }":
        F16, Two, K<Brain>, Mn<Brain>, 256, 64;
    CallFromTensorAcross "compile_fail,E0271"
        "let _ = a; unsafe { multiply_from_tensor::<Row>(d, d, b, true) }":
        F16, Two, Mn<Brain>, Mn<Brain>, 256, 64;
    CallFromTensorUneven "compile_fail,E0080"
        "let _ = a; unsafe { multiply_from_tensor::<Row>(d, d, b, true) }":
        F16, Two, K<Brain>, Mn<Brain>, 256, 48;
);

/// A window has a power of two of registers.
///
/// ```
/// use ptx_std::tcgen05::{Address, load_32x32b};
/// let _: unsafe fn(Address) -> [u32; 32] = load_32x32b;
/// ```
///
/// ```compile_fail,E0277
/// use ptx_std::tcgen05::{Address, load_32x32b};
/// let _: unsafe fn(Address) -> [u32; 24] = load_32x32b;
/// ```
struct Windows;
