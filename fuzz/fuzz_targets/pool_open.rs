//! libFuzzer on the target `pool_open`: any bytes, and edited pools, opened and worked in.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::run("pool_open", data));
