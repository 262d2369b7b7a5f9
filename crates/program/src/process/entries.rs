//! The entries of the page: from an instruction of the program to [`event`](super::events).
//!
//! An entry keeps every register that the program may still need. The runtime runs on the stack of
//! the program's thread, behind a frame of saved registers; it is compiled for plain x86-64, but
//! the C library that it calls uses all vector registers, so those are kept too.

use crate::process::events::event;
use seawall_cc::abi::{self, Vectors};
use std::arch::naked_asm;

/// The flags go to `%ah` and `%al`, which is faster than `pushfq` and `popfq`.
macro_rules! entry {
    ($name:ident, [$($save_flags:literal),*], [$($load_flags:literal),*],
     [$($save:literal),*], [$($load:literal),*]) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "push rax",
                $($save_flags,)*
                "push rax",
                "push rcx",
                "push rdx",
                "push rsi",
                "push r8",
                "push r9",
                "push r10",
                "push r11",
                "push qword ptr [{saved}]",
                "push rbp",
                "mov rdx, rsp",
                "mov rbp, rsp",
                "and rsp, -64",
                $($save,)*
                "mov esi, dword ptr [{what}]",
                "cld",
                "call {event}",
                $($load,)*
                "mov rsp, rbp",
                "pop rbp",
                "pop rdi",
                "pop r11",
                "pop r10",
                "pop r9",
                "pop r8",
                "pop rsi",
                "pop rdx",
                "pop rcx",
                "pop rax",
                $($load_flags,)*
                "pop rax",
                "ret",
                saved = const abi::SAVED,
                what = const abi::WHAT,
                event = sym event,
            )
        }
    };
}

macro_rules! entries {
    ($plain:ident, $flags:ident, [$($save:literal),*], [$($load:literal),*]) => {
        entry!($plain, [], [], [$($save),*], [$($load),*]);
        entry!($flags, ["lahf", "seto al"], ["add al, 127", "sahf"], [$($save),*], [$($load),*]);
    };
}

entries!(none, none_flags, [], []);
entries!(
    sse,
    sse_flags,
    [
        "sub rsp, 256",
        "movaps [rsp], xmm0",
        "movaps [rsp + 16], xmm1",
        "movaps [rsp + 32], xmm2",
        "movaps [rsp + 48], xmm3",
        "movaps [rsp + 64], xmm4",
        "movaps [rsp + 80], xmm5",
        "movaps [rsp + 96], xmm6",
        "movaps [rsp + 112], xmm7",
        "movaps [rsp + 128], xmm8",
        "movaps [rsp + 144], xmm9",
        "movaps [rsp + 160], xmm10",
        "movaps [rsp + 176], xmm11",
        "movaps [rsp + 192], xmm12",
        "movaps [rsp + 208], xmm13",
        "movaps [rsp + 224], xmm14",
        "movaps [rsp + 240], xmm15"
    ],
    [
        "movaps xmm0, [rsp]",
        "movaps xmm1, [rsp + 16]",
        "movaps xmm2, [rsp + 32]",
        "movaps xmm3, [rsp + 48]",
        "movaps xmm4, [rsp + 64]",
        "movaps xmm5, [rsp + 80]",
        "movaps xmm6, [rsp + 96]",
        "movaps xmm7, [rsp + 112]",
        "movaps xmm8, [rsp + 128]",
        "movaps xmm9, [rsp + 144]",
        "movaps xmm10, [rsp + 160]",
        "movaps xmm11, [rsp + 176]",
        "movaps xmm12, [rsp + 192]",
        "movaps xmm13, [rsp + 208]",
        "movaps xmm14, [rsp + 224]",
        "movaps xmm15, [rsp + 240]"
    ]
);
entries!(
    avx,
    avx_flags,
    [
        "sub rsp, 512",
        "vmovaps [rsp], ymm0",
        "vmovaps [rsp + 32], ymm1",
        "vmovaps [rsp + 64], ymm2",
        "vmovaps [rsp + 96], ymm3",
        "vmovaps [rsp + 128], ymm4",
        "vmovaps [rsp + 160], ymm5",
        "vmovaps [rsp + 192], ymm6",
        "vmovaps [rsp + 224], ymm7",
        "vmovaps [rsp + 256], ymm8",
        "vmovaps [rsp + 288], ymm9",
        "vmovaps [rsp + 320], ymm10",
        "vmovaps [rsp + 352], ymm11",
        "vmovaps [rsp + 384], ymm12",
        "vmovaps [rsp + 416], ymm13",
        "vmovaps [rsp + 448], ymm14",
        "vmovaps [rsp + 480], ymm15",
        "vzeroupper"
    ],
    [
        "vmovaps ymm0, [rsp]",
        "vmovaps ymm1, [rsp + 32]",
        "vmovaps ymm2, [rsp + 64]",
        "vmovaps ymm3, [rsp + 96]",
        "vmovaps ymm4, [rsp + 128]",
        "vmovaps ymm5, [rsp + 160]",
        "vmovaps ymm6, [rsp + 192]",
        "vmovaps ymm7, [rsp + 224]",
        "vmovaps ymm8, [rsp + 256]",
        "vmovaps ymm9, [rsp + 288]",
        "vmovaps ymm10, [rsp + 320]",
        "vmovaps ymm11, [rsp + 352]",
        "vmovaps ymm12, [rsp + 384]",
        "vmovaps ymm13, [rsp + 416]",
        "vmovaps ymm14, [rsp + 448]",
        "vmovaps ymm15, [rsp + 480]"
    ]
);
// The header of the area must start as zeros: `xsave64` only sets bits of it.
entries!(
    avx512,
    avx512_flags,
    [
        "sub rsp, 4096",
        "mov qword ptr [rsp + 512], 0",
        "mov qword ptr [rsp + 520], 0",
        "mov qword ptr [rsp + 528], 0",
        "mov qword ptr [rsp + 536], 0",
        "mov qword ptr [rsp + 544], 0",
        "mov qword ptr [rsp + 552], 0",
        "mov qword ptr [rsp + 560], 0",
        "mov qword ptr [rsp + 568], 0",
        "mov r8, rdx",
        "mov eax, 0xe6",
        "xor edx, edx",
        "xsave64 [rsp]",
        "mov rdx, r8"
    ],
    ["mov eax, 0xe6", "xor edx, edx", "xrstor64 [rsp]"]
);

/// The entries in the order of [`abi::entry`].
pub(crate) fn table() -> [usize; abi::ENTRY_COUNT as usize] {
    let mut table = [0; abi::ENTRY_COUNT as usize];
    let pairs = [
        (Vectors::None, none as *const () as usize, none_flags as *const () as usize),
        (Vectors::Sse, sse as *const () as usize, sse_flags as *const () as usize),
        (Vectors::Avx, avx as *const () as usize, avx_flags as *const () as usize),
        (Vectors::Avx512, avx512 as *const () as usize, avx512_flags as *const () as usize),
    ];
    for (vectors, plain, flags) in pairs {
        table[abi::entry(false, vectors) as usize] = plain;
        table[abi::entry(true, vectors) as usize] = flags;
    }
    table
}
