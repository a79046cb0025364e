//! A crate outside the workspace that uses the packaged library, built and run by
//! `cargo xtask package`.

fn main() {
    let source = grouped_linear::kernel_source();
    for (name, target, bytes, origin) in &source.modules {
        println!("{target}/{name}: {bytes} bytes, {origin}");
        assert_eq!(*origin, "shipped", "a published crate compiles no kernel");
    }
    assert!(!source.modules.is_empty(), "a published crate ships its kernels");
    println!("compiled with {}; driver {}", source.compiler, source.minimum_driver);
}
