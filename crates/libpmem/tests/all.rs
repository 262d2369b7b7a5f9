//! Programs in C, compiled against Debian's `libpmem.h` and linked with `-lpmem`, run on Debian's
//! library and on ours; they must print the same.

#![cfg(target_os = "linux")]

mod copies;
mod files;
mod messages;
mod objects;
mod ribbon;
mod steps;
mod support;
mod symbols;
mod valgrind;
