//! What this CPU can do about write-back, read from the instruction that says so.
//!
//! The standard library's feature test knows none of the flush instructions, hence CPUID here:
//! leaf 1 EDX bit 19 `clflush`, leaf 7 EBX bits 23 `clflushopt` and 24 `clwb`, ECX bit 28
//! `movdir64b`. On Arm `dc` cleans a line of the CPU's own size, which CTR_EL0 says (DminLine, bits
//! 16 to 19: how many words of 4 bytes, as a power of two). If that is less than a line of ours,
//! one `dc` would leave the rest of the line behind, and the CPU counts as one without it.

use std::sync::OnceLock;

/// Instructions of the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cpu {
    /// x86 `clwb`.
    pub clwb: bool,
    /// x86 `clflushopt`.
    pub clflushopt: bool,
    /// x86 `clflush`.
    pub clflush: bool,
    /// x86 `movdir64b`: a 64-byte store that is never torn.
    pub movdir64b: bool,
    /// Arm `dc cvap`, of a whole line.
    pub cvap: bool,
    /// Arm `dc cvac`, of a whole line.
    pub cvac: bool,
}

/// Asks for the line at `place` to be written by this CPU soon; a hint, at any address.
#[inline]
pub(crate) fn prefetch_for_write(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, wherever it leads.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}

impl Cpu {
    /// The CPU that runs this. It is asked once: in a virtual machine each question costs
    /// microseconds.
    pub fn detect() -> Cpu {
        static CPU: OnceLock<Cpu> = OnceLock::new();
        *CPU.get_or_init(|| with_instructions(Cpu::default()))
    }

    /// The model name of this CPU as the system reports it, or "unknown".
    pub fn model_name() -> String {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("model name"));
        let name = line.and_then(|line| line.split_once(':'));
        let name = name.map(|(_, name)| name.trim().to_string());
        name.unwrap_or_else(|| format!("unknown ({})", std::env::consts::ARCH))
    }
}

/// Whether the processor has a clock that this crate can read.
pub(crate) const HAS_TICKS: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// A clock that costs little to read: the time-stamp counter, or the generic timer of Arm.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the counter, and reading it changes nothing.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: programs may read this register on every Arm Linux, and reading changes nothing.
    unsafe {
        let ticks: u64;
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem));
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

#[cfg(target_arch = "x86_64")]
fn with_instructions(blank: Cpu) -> Cpu {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let leaves = __cpuid(0).eax;
    let clflush = leaves >= 1 && __cpuid(1).edx & 1 << 19 != 0;
    if leaves < 7 {
        return Cpu { clflush, ..blank };
    }
    let extended = __cpuid_count(7, 0);
    Cpu {
        clflush,
        clflushopt: extended.ebx & 1 << 23 != 0,
        clwb: extended.ebx & 1 << 24 != 0,
        movdir64b: extended.ecx & 1 << 28 != 0,
        ..blank
    }
}

#[cfg(target_arch = "aarch64")]
fn with_instructions(blank: Cpu) -> Cpu {
    let cache_type: u64;
    // SAFETY: programs may read this register on every Arm Linux, and reading changes nothing.
    unsafe {
        std::arch::asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nostack, nomem));
    }
    let cvac = cleans_whole_lines(cache_type);
    Cpu { cvap: cvac && std::arch::is_aarch64_feature_detected!("dpb"), cvac, ..blank }
}

/// Whether one `dc` cleans a line of the seam, as CTR_EL0 says.
#[cfg(any(target_arch = "aarch64", test))]
fn cleans_whole_lines(cache_type: u64) -> bool {
    let bytes = 4u64 << (cache_type >> 16 & 0xf);
    bytes >= seawall_memory::LINE_BYTES
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn with_instructions(blank: Cpu) -> Cpu {
    blank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_an_arm_cpu_that_are_shorter_than_ours_are_told() {
        for (power, is_whole) in [(3, false), (4, true), (5, true), (6, true)] {
            // As on Arm's Neoverse N1, but for the field.
            assert_eq!(cleans_whole_lines(0x9440_c004 & !(0xf << 16) | power << 16), is_whole);
        }
    }

    /// HWCAP_DCPOP of the kernel, which `dc cvap` may be used with.
    #[cfg(target_arch = "aarch64")]
    #[test]
    fn the_cpu_agrees_with_what_the_kernel_hands_to_programs() {
        let words = std::fs::read("/proc/self/auxv").unwrap();
        let words = words.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        let words: Vec<u64> = words.collect();
        let hardware = words.chunks_exact(2).find(|pair| pair[0] == 16).map(|pair| pair[1]);
        let cpu = Cpu::detect();
        assert_eq!(cpu.cvap, hardware.unwrap() & 1 << 16 != 0);
        assert!(cpu.cvac && !cpu.clwb && !cpu.clflushopt && !cpu.clflush && !cpu.movdir64b);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_cpu_agrees_with_the_flags_that_the_kernel_lists() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let Some(line) = text.lines().find(|line| line.starts_with("flags")) else { return };
        let flags: Vec<&str> = line.split_whitespace().collect();
        let cpu = Cpu::detect();
        assert_eq!(cpu.clwb, flags.contains(&"clwb"));
        assert_eq!(cpu.clflushopt, flags.contains(&"clflushopt"));
        assert_eq!(cpu.clflush, flags.contains(&"clflush"));
        assert_eq!(cpu.movdir64b, flags.contains(&"movdir64b"));
    }
}
