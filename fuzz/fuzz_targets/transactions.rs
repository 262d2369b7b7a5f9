//! libFuzzer on the target `transactions`: scripts of transactions, held to a model.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seawall_fuzz::run("transactions", data));
