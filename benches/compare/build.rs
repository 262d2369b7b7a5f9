//! Compiles the C side, and the counting library that is preloaded.

use std::env;
use std::path::PathBuf;

const SOURCES: [&str; 8] = [
    "pmdk/pool.c",
    "pmdk/map.c",
    "pmdk/hash_tx.c",
    "pmdk/hash_rp.c",
    "pmdk/btree.c",
    "pmdk/hash_atomic.c",
    "pmdk/rbtree.c",
    DEFRAG,
];
const DEFRAG: &str = "pmdk/defrag.c";
const CREW: &str = "pmdk/crew.c";
const COUNTING: &str = "pmdk/counting.c";

fn main() {
    println!("cargo:rerun-if-changed=pmdk");
    cc::Build::new()
        .files(SOURCES)
        .flag("-std=gnu11")
        .opt_level(2)
        .warnings(true)
        // TX_BEGIN is a setjmp.
        .flag_if_supported("-Wno-clobbered")
        .compile("compare_pmdk");
    let found = pkg_config::Config::new().atleast_version("1.12").probe("libpmemobj");
    let library = found.unwrap_or_else(|error| {
        panic!("no libpmemobj 1.12: apt install libpmemobj-dev libpmem-dev pkg-config\n{error}")
    });
    println!("cargo:rustc-env=LIBPMEMOBJ_VERSION={}", library.version);
    build_counting();
    build_program("CALLS_PROGRAM", "calls", &["pmdk/calls.c", CREW]);
    let maps =
        ["pmdk/maps.c", CREW].into_iter().chain(SOURCES.into_iter().filter(|it| *it != DEFRAG));
    build_program("MAPS_PROGRAM", "maps", &maps.collect::<Vec<_>>());
}

/// A program that runs with either library.
fn build_program(variable: &str, name: &str, sources: &[&str]) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let program = out.join(name);
    let status = cc::Build::new()
        .get_compiler()
        .to_command()
        .args(["-std=gnu11", "-O2", "-Wall", "-Wno-clobbered", "-fPIE"])
        .args(sources)
        .args(["-lpmemobj", "-lpthread", "-ldl", "-o"])
        .arg(&program)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cannot build {name}");
    println!("cargo:rustc-env={variable}={}", program.display());
}

fn build_counting() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = out.join("libcounting.so");
    let status = cc::Build::new()
        .get_compiler()
        .to_command()
        .args(["-std=gnu11", "-O2", "-shared", "-fPIC", COUNTING, "-ldl", "-o"])
        .arg(&library)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cannot build {COUNTING}");
    println!("cargo:rustc-env=COUNTING_LIBRARY={}", library.display());
}
