//! Programs in C, compiled against Debian's `libpmemobj.h`, run on Debian's library and on ours:
//! they must print the same, and find the same after a kill.

mod crowd;
mod disk;
mod fork;
mod hostile;
mod kills;
mod oracle;
mod overwrites;
mod race;
mod support;
mod symbols;
