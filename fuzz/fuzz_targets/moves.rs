//! libFuzzer on the target `moves`: scripts on a heap whose objects move, held to a model.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::run("moves", data));
