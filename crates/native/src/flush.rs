//! The instruction that writes a cache line back, chosen once at start, and the fence after it.
//!
//! Order of preference: `clwb` keeps the line in the cache, `clflushopt` evicts it, `clflush`
//! evicts it and runs one at a time. Measured on one AMD server over DRAM, store + flush + fence of
//! a line costs about 157, 203 and 204 ns, and a read afterwards 8 ns (`clwb`) or 73 ns (the
//! others). `SEAWALL_FLUSH` overrides the choice: Valgrind 3.19, for one, runs only the last (its
//! own CPUID says so).
//!
//! Which fence: `sfence` orders `clwb`, `clflushopt` and non-temporal stores on every x86. AMD's
//! manual orders `clflush` by `mfence` only, so that pair is used wherever `clflush` is chosen. On
//! Arm a clean to the point of persistence (`dc cvap`, or `dc cvac` where there is none) waits for
//! `dsb`; `dmb` does not wait for it.

use crate::cpu::Cpu;
use std::fmt;

/// Loads 64 bytes and stores them by four of the instruction that is named.
#[cfg(target_arch = "x86_64")]
macro_rules! move_line {
    ($store:literal, $at:expr, $from:expr) => {
        std::arch::asm!(
            "movdqu {a}, [{from}]",
            "movdqu {b}, [{from} + 16]",
            "movdqu {c}, [{from} + 32]",
            "movdqu {d}, [{from} + 48]",
            concat!($store, " [{at}], {a}"),
            concat!($store, " [{at} + 16], {b}"),
            concat!($store, " [{at} + 32], {c}"),
            concat!($store, " [{at} + 48], {d}"),
            at = in(reg) $at,
            from = in(reg) $from,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags)
        )
    };
}

/// The variable that overrides the choice; its values are the names of [`FlushKind`].
pub const FLUSH_VARIABLE: &str = "SEAWALL_FLUSH";

/// An instruction that writes a line back, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FlushKind {
    /// x86 `clwb`: writes back, may keep the line cached.
    Clwb,
    /// x86 `clflushopt`: writes back and evicts; lines overlap.
    Clflushopt,
    /// x86 `clflush`: writes back and evicts, one line after another.
    Clflush,
    /// Arm `dc cvap`: cleans to the point of persistence.
    Cvap,
    /// Arm `dc cvac`: cleans to the point of coherency.
    Cvac,
    /// No instruction: persistent caches, durability by page, or a target that has none.
    None,
}

impl FlushKind {
    /// All of them, the preferred first.
    pub const ALL: [FlushKind; 6] = [
        FlushKind::Clwb,
        FlushKind::Clflushopt,
        FlushKind::Clflush,
        FlushKind::Cvap,
        FlushKind::Cvac,
        FlushKind::None,
    ];

    /// The name used in `SEAWALL_FLUSH` and in every output.
    pub const fn name(self) -> &'static str {
        match self {
            FlushKind::Clwb => "clwb",
            FlushKind::Clflushopt => "clflushopt",
            FlushKind::Clflush => "clflush",
            FlushKind::Cvap => "cvap",
            FlushKind::Cvac => "cvac",
            FlushKind::None => "none",
        }
    }

    fn runs_on(self, cpu: &Cpu) -> bool {
        match self {
            FlushKind::Clwb => cpu.clwb,
            FlushKind::Clflushopt => cpu.clflushopt,
            FlushKind::Clflush => cpu.clflush,
            FlushKind::Cvap => cpu.cvap,
            FlushKind::Cvac => cpu.cvac,
            FlushKind::None => true,
        }
    }
}

impl fmt::Display for FlushKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The flush instruction in use, and why this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flush {
    /// The instruction.
    pub kind: FlushKind,
    /// Why, in words.
    pub why: String,
}

/// `SEAWALL_FLUSH` asks for something that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlushError {
    /// The value is no instruction that seawall knows.
    #[error("{FLUSH_VARIABLE}={value}: no such flush instruction; this machine can run: {valid}")]
    Unknown {
        /// What the variable holds.
        value: String,
        /// What it may hold here.
        valid: String,
    },
    /// The CPU does not have the instruction.
    #[error("{FLUSH_VARIABLE}={value}: this CPU does not have it; it can run: {valid}")]
    Missing {
        /// What the variable holds.
        value: String,
        /// What it may hold here.
        valid: String,
    },
}

impl Flush {
    /// The best instruction of this CPU, or the one that `SEAWALL_FLUSH` names.
    ///
    /// # Errors
    /// When the variable names no instruction that this CPU can run.
    pub fn from_environment() -> Result<Flush, FlushError> {
        let wanted = std::env::var_os(FLUSH_VARIABLE);
        let wanted = wanted.map(|value| value.to_string_lossy().into_owned());
        Flush::choose(wanted.as_deref(), &Cpu::detect())
    }

    /// The best instruction of `cpu`, or the one named by `wanted` (empty: not asked).
    ///
    /// # Errors
    /// When `wanted` names no instruction that `cpu` can run.
    pub fn choose(wanted: Option<&str>, cpu: &Cpu) -> Result<Flush, FlushError> {
        let Some(wanted) = wanted.filter(|value| !value.is_empty()) else {
            return Ok(Flush::best(cpu));
        };
        let value = wanted.to_string();
        let kind = FlushKind::ALL.into_iter().find(|kind| kind.name() == wanted);
        match kind {
            None => Err(FlushError::Unknown { value, valid: valid_names(cpu) }),
            Some(kind) if !kind.runs_on(cpu) => {
                Err(FlushError::Missing { value, valid: valid_names(cpu) })
            }
            Some(kind) => Ok(Flush { kind, why: format!("{FLUSH_VARIABLE} asks for it") }),
        }
    }

    fn best(cpu: &Cpu) -> Flush {
        let best = FlushKind::ALL.into_iter().find(|kind| kind.runs_on(cpu));
        let kind = best.unwrap_or(FlushKind::None);
        let why = match kind {
            FlushKind::None => "this target has no flush instruction that programs may use",
            FlushKind::Clwb => "the CPU has it; it leaves the line in the cache",
            FlushKind::Clflushopt => "the CPU has no clwb",
            FlushKind::Clflush => "the CPU has neither clwb nor clflushopt",
            FlushKind::Cvap => "the CPU can clean to the point of persistence",
            FlushKind::Cvac => "the CPU has no dc cvap",
        };
        Flush { kind, why: why.to_string() }
    }
}

fn valid_names(cpu: &Cpu) -> String {
    let names: Vec<&str> =
        FlushKind::ALL.iter().filter(|kind| kind.runs_on(cpu)).map(|kind| kind.name()).collect();
    names.join(", ")
}

/// Starts the write-back of the line that holds `at`.
///
/// # Safety
/// `at` points into a live mapping, and the CPU runs `kind`.
#[inline]
pub(crate) unsafe fn flush_line(kind: FlushKind, at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for `at` and `kind`; the instructions change no register or flag.
    unsafe {
        use std::arch::asm;
        match kind {
            FlushKind::Clwb => asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)),
            FlushKind::Clflushopt => {
                asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags));
            }
            FlushKind::Clflush => {
                asm!("clflush [{}]", in(reg) at, options(nostack, preserves_flags));
            }
            FlushKind::Cvap | FlushKind::Cvac | FlushKind::None => {}
        }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above. `sys #3, c7, c12, #1` is `dc cvap` for assemblers that do not know it.
    unsafe {
        use std::arch::asm;
        match kind {
            FlushKind::Cvap => {
                asm!("sys #3, c7, c12, #1, {}", in(reg) at, options(nostack, preserves_flags));
            }
            FlushKind::Cvac => {
                asm!("dc cvac, {}", in(reg) at, options(nostack, preserves_flags));
            }
            _ => {}
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (kind, at);
}

/// Orders all flushes and non-temporal stores before it before all stores after it.
#[inline]
pub(crate) fn fence(kind: FlushKind) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both fences exist on every x86-64 and touch no register, flag or memory.
    unsafe {
        use std::arch::asm;
        if kind == FlushKind::Clflush {
            asm!("mfence", options(nostack, preserves_flags));
        } else {
            asm!("sfence", options(nostack, preserves_flags));
        }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier touches no register, flag or memory.
    unsafe {
        let _ = kind;
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = kind;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

/// True where a locked instruction that stores orders what [`fence`] does, `clflush` excepted:
/// Intel's manual says so of `clwb`, `clflushopt` and non-temporal stores.
pub(crate) const LOCKED_IS_FENCE: bool = cfg!(target_arch = "x86_64");

/// True where [`store_past_caches`] is more than a store.
pub(crate) const CAN_STORE_PAST_CACHES: bool = cfg!(target_arch = "x86_64");

/// Stores 8 bytes past the caches; in order with nothing until the next fence.
///
/// # Safety
/// `at` is 8-byte aligned and points into a live, writable mapping.
#[inline]
pub(crate) unsafe fn store_past_caches(at: *mut u64, value: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for `at`; `movnti` exists on every x86-64.
    unsafe {
        std::arch::asm!(
            "movnti [{}], {}", in(reg) at, in(reg) value, options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller vouches for `at`.
    unsafe {
        std::sync::atomic::AtomicU64::from_ptr(at)
            .store(value, std::sync::atomic::Ordering::Release);
    }
}

/// As [`store_past_caches`], a whole line, in pieces of 16 bytes where there are such stores.
///
/// # Safety
/// `at` is the start of a line in a live, writable mapping; a line's bytes can be read at `from`.
#[inline]
pub(crate) unsafe fn store_line_past_caches(at: *mut u8, from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for both; the instructions exist on every x86-64.
    unsafe {
        move_line!("movntdq", at, from);
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller vouches for both.
    unsafe {
        store_line(at, from);
    }
}

/// Stores a whole line through the caches, all of which is loaded before the first store.
///
/// # Safety
/// As [`store_line_past_caches`].
#[inline]
pub(crate) unsafe fn store_line(at: *mut u8, from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for both; the instructions exist on every x86-64.
    unsafe {
        move_line!("movdqa", at, from);
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller vouches for both.
    unsafe {
        let line = from.cast::<[u64; 8]>().read_unaligned();
        for (place, word) in line.into_iter().enumerate() {
            let at = at.cast::<u64>().add(place);
            std::sync::atomic::AtomicU64::from_ptr(at)
                .store(word, std::sync::atomic::Ordering::Release);
        }
    }
}

/// As [`store_past_caches`], 4 bytes.
///
/// # Safety
/// `at` is 4-byte aligned and points into a live, writable mapping.
#[inline]
pub(crate) unsafe fn store_half_past_caches(at: *mut u32, value: u32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for `at`; `movnti` exists on every x86-64.
    unsafe {
        std::arch::asm!(
            "movnti [{}], {:e}", in(reg) at, in(reg) value, options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller vouches for `at`.
    unsafe {
        std::sync::atomic::AtomicU32::from_ptr(at)
            .store(value, std::sync::atomic::Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old_cpu() -> Cpu {
        Cpu { clwb: false, clflushopt: false, clflush: true, cvap: false, ..Cpu::detect() }
    }

    #[test]
    fn the_best_instruction_of_the_cpu_is_chosen() {
        let newest = Cpu { clwb: true, clflushopt: true, clflush: true, ..old_cpu() };
        assert_eq!(Flush::choose(None, &newest).unwrap().kind, FlushKind::Clwb);
        let older = Cpu { clwb: false, ..newest };
        assert_eq!(Flush::choose(Some(""), &older).unwrap().kind, FlushKind::Clflushopt);
        assert_eq!(Flush::choose(None, &old_cpu()).unwrap().kind, FlushKind::Clflush);
    }

    #[test]
    fn an_arm_cpu_cleans_to_the_point_of_persistence_or_else_to_that_of_coherency() {
        let none = Cpu { clflush: false, cvac: false, ..old_cpu() };
        let arm = Cpu { cvap: true, cvac: true, ..none };
        assert_eq!(Flush::choose(None, &arm).unwrap().kind, FlushKind::Cvap);
        assert_eq!(Flush::choose(Some("cvac"), &arm).unwrap().kind, FlushKind::Cvac);
        assert_eq!(Flush::choose(None, &Cpu { cvac: true, ..none }).unwrap().kind, FlushKind::Cvac);
        assert_eq!(Flush::choose(None, &none).unwrap().kind, FlushKind::None);
    }

    #[test]
    fn an_override_that_the_cpu_can_run_wins() {
        let flush = Flush::choose(Some("none"), &old_cpu()).unwrap();
        assert_eq!(flush.kind, FlushKind::None);
        assert!(flush.why.contains(FLUSH_VARIABLE));
    }

    #[test]
    fn an_override_that_cannot_be_lists_the_valid_names() {
        let missing = Flush::choose(Some("clwb"), &old_cpu()).unwrap_err();
        assert!(matches!(missing, FlushError::Missing { .. }));
        assert!(missing.to_string().contains("clflush, "), "{missing}");
        let unknown = Flush::choose(Some("CLWB"), &old_cpu()).unwrap_err();
        assert!(matches!(unknown, FlushError::Unknown { .. }));
        assert!(unknown.to_string().ends_with("none"), "{unknown}");
    }

    #[test]
    fn every_instruction_that_this_cpu_has_runs_and_keeps_the_data() {
        let cpu = Cpu::detect();
        let mut line = [0u64; 16];
        for (index, kind) in FlushKind::ALL.into_iter().filter(|k| k.runs_on(&cpu)).enumerate() {
            let at: *mut u64 = &raw mut line[8];
            // SAFETY: `at` points into `line`, which lives on; the CPU runs `kind`.
            unsafe {
                store_past_caches(at, index as u64 + 1);
                flush_line(kind, at.cast());
            }
            fence(kind);
            // SAFETY: as above.
            assert_eq!(unsafe { at.read_volatile() }, index as u64 + 1, "{kind}");
        }
    }
}
