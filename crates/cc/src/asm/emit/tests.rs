//! What is put into assembly, instruction by instruction.

use crate::abi::{self, Kind};
use crate::asm::instrument;

/// A function of gcc around some lines, instrumented; the lines of it, without counters.
fn gcc(body: &str) -> Vec<String> {
    lines(&format!(".type f,@function\nf:\n{body}\n.size f,.-f\n.ident \"GCC\"\n"))
        .into_iter()
        .filter(|line| !line.starts_with("addq $") || !line.contains("0x5ea000"))
        .collect()
}

/// As above, without the calls for data that only moves.
fn accesses(body: &str) -> Vec<String> {
    let mut lines = gcc(body);
    let flow = format!("movl ${:#x}, 0x5ea00008", Kind::Flow.what(0));
    while let Some(at) = lines.iter().position(|line| *line == flow) {
        let is_start = |line: &String| line.starts_with("movq %rdi, 0x5ea00000");
        let start = lines[..at].iter().rposition(is_start).unwrap();
        let end = at + 2 + usize::from(lines[at + 2].starts_with("leaq 128(%rsp)"));
        lines.drain(start..end);
    }
    lines
}

fn lines(text: &str) -> Vec<String> {
    let text = instrument(text).unwrap_or_else(|error| panic!("{error}"));
    let lines = text.lines().map(|line| line.trim().replace('\t', " "));
    lines
        .filter(|line| !line.is_empty() && (!line.starts_with('.') || line.ends_with(':')))
        .filter(|line| !line.starts_with(".Lseawall_d") && !line.starts_with(".Lseawall_s"))
        .collect()
}

#[test]
fn a_load_is_announced_before_it_happens() {
    let expected = [
        "f:",
        "movq %rdi, 0x5ea00000",
        "leaq 8(%rax,%rbx,4), %rdi",
        "movl $0x4, 0x5ea00008",
        "call *0x5ea00100",
        "movl 8(%rax,%rbx,4), %ecx",
        "ret",
    ];
    assert_eq!(gcc("movl 8(%rax,%rbx,4), %ecx\nret"), expected);
}

#[test]
fn the_red_zone_is_stepped_over_after_the_address_is_taken() {
    let found = gcc("leaq -8(%rsp), %rdx\nmovl -4(%rsp,%rax,4), %ecx\nret");
    let expected = [
        "f:",
        "leaq -8(%rsp), %rdx",
        "movq %rdi, 0x5ea00000",
        "leaq -4(%rsp,%rax,4), %rdi",
        "leaq -128(%rsp), %rsp",
        "movl $0x4, 0x5ea00008",
        "call *0x5ea00100",
        "leaq 128(%rsp), %rsp",
        "movl -4(%rsp,%rax,4), %ecx",
        "ret",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_index_into_a_frame_that_nobody_else_knows_stays_there() {
    let found = accesses("movl -40(%rsp,%rax,4), %ecx\nret");
    assert!(!found.iter().any(|line| line.starts_with("call")), "{found:?}");
    let found = gcc("movl (%rdi,%rax,4), %ecx\nret");
    assert!(found.iter().any(|line| line.starts_with("call")), "{found:?}");
}

#[test]
fn a_masked_store_tells_its_mask_and_then_its_address() {
    let found = gcc("maskmovdqu %xmm1, %xmm0\nret");
    let expected = [
        "f:",
        "movq %rdi, 0x5ea00000",
        "pmovmskb %xmm1, %edi",
        "movq %rdi, 0x5ea00028",
        "movq 0x5ea00000, %rdi",
        "movq %rdi, %rdi",
        "movl $0x140110, 0x5ea00008",
        "call *0x5ea00110",
        "maskmovdqu %xmm1, %xmm0",
        "ret",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_direction_is_told_and_kept() {
    let found = gcc("std\nrep movsb\ncld\nret");
    let expected = [
        "f:",
        "std",
        "movq %rdi, 0x5ea00000",
        "pushfq",
        "popq 0x5ea00030",
        "pushfq",
        "movl $0xc8001, 0x5ea00008",
        "call *0x5ea00100",
        "popfq",
        "rep movsb",
        "cld",
        "ret",
    ];
    assert_eq!(found, expected);
}

#[test]
fn blocks_count_their_instructions_and_the_stack() {
    let text = ".type f,@function\nf:\npushq %rbx\nmovl 8(%rsp), %eax\nincl 4(%rsp)\n\
                cmpl $1, %eax\njne .L2\nlock\nincl (%rdi)\n.L2:\nsete %al\npopq %rbx\nret\n\
                .size f,.-f\n.ident \"GCC\"\n";
    let found = lines(text);
    assert_eq!(found[1..4], ["addq $5, 0x5ea00010", "addq $2, 0x5ea00018", "addq $2, 0x5ea00020"]);
    let second = found.iter().position(|line| line.starts_with("jne")).unwrap();
    assert_eq!(found[second + 3], "leaq 1(%rax), %rax");
    let third = found.iter().position(|line| line == ".L2:").unwrap() + 1;
    assert_eq!(
        found[third..third + 8],
        [
            "movq %rax, 0x5ea00000",
            "movq 0x5ea00010, %rax",
            "leaq 3(%rax), %rax",
            "movq %rax, 0x5ea00010",
            "movq 0x5ea00018, %rax",
            "leaq 2(%rax), %rax",
            "movq %rax, 0x5ea00018",
            "movq 0x5ea00000, %rax",
        ]
    );
}

#[test]
fn flags_and_vectors_choose_the_entry() {
    let found = gcc("cmpl $1, %eax\nmovl (%rdi), %eax\nsete %al\nret");
    assert!(found.contains(&"call *0x5ea00108".to_string()), "{found:?}");
    let found = gcc("vmovups (%rdi), %zmm0\nret");
    assert!(found.contains(&"call *0x5ea00130".to_string()), "{found:?}");
}

#[test]
fn flushes_fences_and_pauses_are_replaced_by_their_calls() {
    for (body, what) in [
        (".byte 0x66; xsaveopt 8(%rax)", "$0x50040"),
        (".byte 0x66\nclflush 8(%rax)", "$0x60040"),
        ("clflush 8(%rax)", "$0x70040"),
        ("sfence", "$0x80000"),
        ("rep; nop", "$0xb0000"),
        ("pause", "$0xb0000"),
        ("syscall", "$0x110000"),
    ] {
        let found = gcc(&format!("{body}\nret"));
        assert!(found.iter().any(|line| line == &format!("movl {what}, 0x5ea00008")));
        assert!(!found.iter().any(|line| line.contains("clflush") || line.contains("xsave")));
        assert!(!found.iter().any(|line| line.contains("fence") || line.contains("nop")));
        assert!(!found.iter().any(|line| line.contains("syscall") || line == "pause"));
    }
    assert!(gcc("movntdq %xmm0, (%rax)\nret").contains(&"movntdq %xmm0, (%rax)".to_string()));
}

#[test]
fn what_a_thread_owns_is_reached_through_its_address() {
    let found = gcc("movl %fs:x@tpoff, %eax\nret");
    assert_eq!(found[2..4], ["movq %fs:0, %rdi", "leaq x@tpoff(%rdi), %rdi"]);
    let found = gcc("movl %fs:4(%rax), %eax\nret");
    assert_eq!(found[2..4], ["movq %fs:0, %rdi", "leaq 4(%rdi,%rax), %rdi"]);
    let found = gcc("movl %fs:4(%rdi), %eax\nret");
    let expected =
        ["leaq 4(%rdi), %rdi", "pushq %rax", "movq %fs:0, %rax", "leaq (%rax,%rdi), %rdi"];
    assert_eq!(found[2..6], expected);
    assert_eq!(accesses("movq %fs:40, %rax\nret"), ["f:", "movq %fs:40, %rax", "ret"]);
}

#[test]
fn a_copy_of_64_bytes_is_a_load_and_a_store_past_the_caches() {
    let found = gcc("movdir64b 8(%rax), %rbx\nret");
    assert_eq!(found[2..4], ["leaq 8(%rax), %rdi", "movl $0x40, 0x5ea00008"]);
    assert_eq!(found[6..8], ["movq %rbx, %rdi", "movl $0x80160040, 0x5ea00008"]);
    let copied = found[9..].iter().filter(|line| line.contains("(%rdi)")).map(|line| &line[..5]);
    assert!(copied.eq([["pushq"; 8], ["popq "; 8]].concat()), "{found:?}");
    assert!(!found.iter().any(|line| line.contains("movdir64b")));
}

#[test]
fn sequences_for_the_linker_stay_together() {
    let body = ".byte 0x66\nleaq x@tlsgd(%rip), %rdi\n.value 0x6666\nrex64\n\
                call __tls_get_addr@PLT\nmovq y@GOTPCREL(%rip), %rax\nret";
    assert!(!accesses(body).iter().any(|line| line.contains("0x5ea00008")));
    let found = gcc(body);
    let at = |text: &str| found.iter().position(|line| line.contains(text)).unwrap();
    assert!(at("call *0x5ea001") < at("tlsgd"), "{found:?}");
    assert_eq!(at("tlsgd") + 2, at("__tls_get_addr"), "{found:?}");
}

#[test]
fn a_jump_to_near_targets_only_goes_over_one_to_all() {
    let found = gcc("jrcxz .L2\nnop\n.L2:\nret");
    assert!(found[1].starts_with("jrcxz .Lseawall_"), "{found:?}");
    assert!(found.contains(&"jmp .L2".to_string()));
}

#[test]
fn an_entry_point_stays_at_the_head_of_its_block() {
    let found = lines(".type f,@function\nf:\nendbr64\nnop\nret\n.ident \"GCC\"\n");
    assert_eq!(
        found,
        ["f:", "endbr64", "addq $3, 0x5ea00010", "addq $1, 0x5ea00018", "nop", "ret"]
    );
}

#[test]
fn text_without_code_is_left_as_it_was() {
    let text = "# head\n\t.data\nx:\t.long 1 # movl (%rax), %eax\n\t.section .note,\"\"\n movl";
    assert_eq!(instrument(text).unwrap(), text);
}
#[test]
fn marks_of_copies_have_no_records_and_take_none() {
    let [begin, end] = [Kind::BeginCopy, Kind::EndCopy].map(|kind| kind.what(0));
    let copy = "movq (%rax), %rsi\nmovdqu (%rsi), %xmm0\nmovups %xmm0, 8(%rdi)\n\
                movdqu 16(%rsi), %xmm1\nmovups %xmm1, 24(%rdi)\nmovq 8(%rsi), %rdi\nret\n";
    let marks = format!("nopl {}\n{copy}", abi::COPY_MARKS[0]);
    for (body, count) in [(copy, 2), (&marks, 3)] {
        let text = format!(".type f,@function\nf:\n{body}.size f,.-f\n.ident \"GCC\"\n");
        let text = instrument(&text).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let is_mark = |line: &str| {
            [begin, end].iter().any(|what| line.starts_with(&format!("movl\t${what:#x}, ")))
        };
        assert_eq!(lines.iter().filter(|line| is_mark(line)).count(), count, "{text}");
        let is_record = |line: &str| line.starts_with(".Lseawall_d") && line.ends_with(':');
        let records: Vec<usize> = (0..lines.len()).filter(|at| is_record(lines[*at])).collect();
        assert_eq!(records.len(), 6, "one for each access: {text}");
        for at in records {
            let call = lines[..at].iter().rposition(|line| line.starts_with("call\t*")).unwrap();
            assert!(!is_mark(lines[call - 1]), "{text}");
        }
    }
}
