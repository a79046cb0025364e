//! Any text either is refused with an error that prints, or becomes a module that prints, in a
//! length bounded by a multiple of the text's, and parses again as the same module.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_emulator::Module;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let mut module = match Module::parse(&text) {
        Ok(module) => module,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let printed = module.to_string();
    assert!(printed.len() <= 64 * text.len() + 256, "{} bytes became:\n{printed}", text.len());
    let mut again = Module::parse(&printed)
        .unwrap_or_else(|error| panic!("printed text does not parse: {error}\n{printed}"));
    module.forget_lines();
    again.forget_lines();
    assert!(module == again, "printing changed the module:\n{printed}");
});
