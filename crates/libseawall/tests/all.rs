//! Programs in C and C++ on libseawall, compiled against it as it is installed: examples, kills,
//! errors, and damaged files.

#![cfg(target_os = "linux")]

mod crowd;
mod errors;
mod fork;
mod install;
mod kills;
mod moving;
mod support;
