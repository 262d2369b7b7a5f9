//! What the compiler refuses of typed pools: one file of misuse each, and what it says to it.
//!
//! Here and not in the runtime's tests, as the files are compiled in a project of their own that
//! builds what the tests of this crate need. After a change of the compiler or of the API:
//! `TRYBUILD=overwrite cargo test -p seawall-derive`, and read what it wrote.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
