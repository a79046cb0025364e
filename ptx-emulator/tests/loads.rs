//! Which of the shipped modules the machine takes.

use ptx_emulator::{Arch, Machine};

#[test]
fn shipped_modules_load() {
    for arch in Arch::ALL {
        for name in ["reduce", "setup", "simt"] {
            let path = format!("{}/../host/ptx/{arch}/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            let mut machine = Machine::new(arch);
            let module = machine.load(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(machine.kernels(module).count(), text.matches(".visible .entry").count());
        }
    }
}
