//! libFuzzer on the target `recovery`: edited logs whose checksums add up.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::run("recovery", data));
