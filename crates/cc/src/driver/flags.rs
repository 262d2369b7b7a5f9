//! Which of the user's options the second compilation and the second link have, and which they have
//! besides.
//!
//! Code for a program is compiled as position-independent code, because its image is loaded by the
//! process that runs it. So that it is nevertheless the code of a program, its symbols are
//! `protected`: what a file defines is reached directly, not through a table, and the image still
//! exports it. Code that the user compiles with `-fPIC` may become a library, and stays as it is.

use super::arguments::{Argument, Arguments, What};
use super::compiler::Brand;
use std::ffi::OsString;

/// What the second compilation must not have. A star stands for any rest.
const NOT_COMPILED: &[&str] = &[
    // What is made, and where: decided anew.
    "-c",
    "-E",
    "-S",
    "--compile",
    "-pipe",
    // Files besides the object, and talk: the first compilation has made them.
    "-M*",
    "-Wp,-M*",
    "-Wp,-dep*",
    "-save-temps*",
    "--save-temps*",
    "-aux-info*",
    "-dump*",
    "-d*",
    "-fdump-*",
    "-fstack-usage",
    "-fcallgraph-info*",
    "-fopt-info*",
    "-ftime-report*",
    "-time*",
    "-v",
    "-H",
    "-Q",
    "-W*",
    "-pedantic*",
    "-fsave-optimization-record*",
    "-gsplit-dwarf",
    "-gz*",
    "-ftime-trace*",
    "-fdiagnostics-format*",
    // Code for a program or a library: decided anew.
    "-fPIC",
    "-fpic",
    "-fPIE",
    "-fpie",
    "-fno-PIC",
    "-fno-pic",
    "-fno-PIE",
    "-fno-pie",
    "-pie",
    "-no-pie",
    "-nopie",
    "-static*",
    "--static",
    "-shared*",
    "--shared",
    "-r",
    "-s",
    "-rdynamic",
    // Code that is not the program's own.
    "-fsanitize*",
    "-fno-sanitize*",
    "-fprofile*",
    "-fno-profile*",
    "--coverage",
    "-coverage",
    "-fcoverage*",
    "-ftest-coverage",
    "-fbranch-probabilities",
    "-fcondition-coverage",
    "-p",
    "-pg",
    "-fstack-protector*",
    "-fcf-protection*",
    // There is no assembly of a whole program.
    "-flto*",
    "-fno-lto",
    "-fuse-linker-plugin",
    "-ffat-lto-objects",
    "-fno-fat-lto-objects",
    "-emit-llvm",
];

/// As above, of the link of an image.
const NOT_LINKED: &[&str] = &[
    "-c",
    "-E",
    "-S",
    "-M*",
    "-Wp,*",
    "-save-temps*",
    "--save-temps*",
    "-dump*",
    "-d*",
    "-v",
    "-H",
    "-Q",
    "-W*",
    "-time*",
    "-pie",
    "-no-pie",
    "-nopie",
    "-static*",
    "--static",
    "-shared*",
    "--shared",
    "-s",
    "-r",
    "-rdynamic",
    "-fsanitize*",
    "-fno-sanitize*",
    "-fprofile*",
    "--coverage",
    "-coverage",
    "-fcoverage*",
    "-ftest-coverage",
    "-p",
    "-pg",
    "-flto*",
    "-fuse-linker-plugin",
    "-fwhole-program",
];

/// What only a program has: a library's image keeps these.
const NOT_LINKED_PROGRAM: &[&str] = &["-T*", "-e*", "--entry*", "-nostartfiles"];

/// Words for the linker that have their value in the same word, or in the next one.
const LINKER_DROPPED: &[&str] = &[
    "-Map*",
    "--Map*",
    "--dependency-file*",
    "--out-implib*",
    "-o",
    "--output*",
    "--plugin*",
    "-plugin*",
    "-dynamic-linker*",
    "--dynamic-linker*",
    "-s",
    "-S",
    "--strip-*",
    "-pie",
    "-no-pie",
    "--pie",
    "--no-pie",
    "-static",
    "--static",
    "-shared",
    "--print-*",
    "--cref",
    "-M",
    "-t",
    "--trace",
    "--verbose",
    "--stats",
    "-v",
    "-V",
    "--version",
    "--fatal-warnings",
    "-r",
    // Who loads the image says what is missing.
    "-no-undefined",
    "--no-undefined",
    "-zdefs",
];
const LINKER_DROPPED_PROGRAM: &[&str] = &[
    "--version-script*",
    "--dynamic-list*",
    "--exclude-libs*",
    "--retain-symbols-file*",
    "-T*",
    "--script*",
    "-e",
    "--entry*",
    "--image-base*",
    "--section-start*",
    "-soname*",
    "--soname*",
];
/// Those of both lists whose value is the next word, if no `=` is in theirs.
const LINKER_VALUED: &[&str] = &[
    "-Map",
    "--Map",
    "--dependency-file",
    "--out-implib",
    "-o",
    "--output",
    "-plugin",
    "--plugin",
    "-dynamic-linker",
    "--dynamic-linker",
    "--version-script",
    "--exclude-libs",
    "-T",
    "--script",
    "--retain-symbols-file",
    "-e",
    "--entry",
    "--section-start",
    "-soname",
    "--soname",
    "--image-base",
    "-Ttext",
    "-Tdata",
    "-Tbss",
];

/// The options of the second compilation, without the source.
pub(super) fn compile(arguments: &Arguments, brand: Brand) -> Vec<OsString> {
    let mut flags: Vec<OsString> = Vec::new();
    let is_library = is_for_libraries(arguments);
    if !is_library {
        flags.push("-fvisibility=protected".into());
    }
    let mut debug = None;
    for argument in arguments.all.iter().filter(|one| one.what == What::Option) {
        let text = argument.text();
        if is_in(&text, NOT_COMPILED) {
            continue;
        }
        if text.starts_with("-g") && !text.starts_with("-gcc-toolchain") {
            debug = Some(text != "-g0");
        }
        flags.extend(argument.words.iter().cloned());
    }
    let mut more = vec!["-w", "-fPIC", "-ftls-model=initial-exec", "-fno-stack-protector"];
    more.extend(["-fcf-protection=none", "-fno-lto"]);
    // In tables of version 5, addr2line of binutils takes the first file for the second one.
    more.push("-gdwarf-4");
    if debug != Some(true) {
        more.push("-g1");
    }
    if !is_library {
        more.push("-fno-semantic-interposition");
    }
    if let Brand::Gcc { major } = brand {
        more.push("-fno-ipa-ra");
        // Else what is protected is reached through the table as well.
        if !is_library && major >= 12 {
            more.push("-mno-direct-extern-access");
        }
    }
    flags.extend(more.into_iter().map(OsString::from));
    flags
}

/// Why the second compilation cannot be, whatever the source.
pub(super) fn refusal(arguments: &Arguments) -> Option<String> {
    let refused = ["-m32", "-mx32", "-m16", "-masm=intel", "-fsplit-stack", "-emit-llvm"];
    let found = arguments.options().find(|text| refused.contains(&text.as_str()))?;
    Some(format!("the option {found} is not supported: compile it without"))
}

/// True if the objects may become part of a library: the last option about it says so.
fn is_for_libraries(arguments: &Arguments) -> bool {
    let last = arguments.options().filter_map(|text| match text.as_str() {
        "-fPIC" | "-fpic" => Some(true),
        "-fPIE" | "-fpie" | "-fno-PIC" | "-fno-pic" | "-fno-PIE" | "-fno-pie" => Some(false),
        _ => None,
    });
    last.last().unwrap_or(false)
}

/// The options with which the instrumented assembly becomes an object.
pub(super) fn assemble(arguments: &Arguments) -> Vec<OsString> {
    const KEPT: &[&str] = &["-I*", "-B*", "-m64", "-target", "--target*", "-isystem", "-iquote"];
    let mut flags = Vec::new();
    for argument in &arguments.all {
        match &argument.what {
            What::Option if is_in(&argument.text(), KEPT) => {
                flags.extend(argument.words.iter().cloned());
            }
            What::Assembler(words) => flags.extend(assembler_words(words)),
            _ => {}
        }
    }
    flags
}

/// Without listings and dependencies, which are files of the first compilation.
fn assembler_words(words: &[OsString]) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "--MD" || text == "-o" {
            words.next();
        } else if !is_in(&text, &["-a", "-ac*", "-ad*", "-ag*", "-ah*", "-al*", "-am*", "-an*"])
            && !is_in(&text, &["-as*", "-a=*", "-g*", "--g*"])
        {
            kept.extend(["-Xassembler".into(), word.clone()]);
        }
    }
    kept
}

/// True if the link of an image has this option, too.
pub(super) fn is_linked(argument: &Argument, is_program: bool) -> bool {
    let text = argument.text();
    if text == "-zdefs" || argument.words == ["-z", "defs"] {
        return false;
    }
    !(is_in(&text, NOT_LINKED) || is_program && is_in(&text, NOT_LINKED_PROGRAM))
}

/// The words for the linker that the link of an image has, too.
pub(super) fn linker_words(words: &[OsString], is_program: bool) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "-z" && words.next_if(|next| *next == "defs").is_some() {
            continue;
        }
        let is_dropped =
            is_in(&text, LINKER_DROPPED) || is_program && is_in(&text, LINKER_DROPPED_PROGRAM);
        if !is_dropped {
            kept.push(word.clone());
        } else if LINKER_VALUED.contains(&text.as_ref()) {
            words.next();
        }
    }
    kept
}

fn is_in(text: &str, table: &[&str]) -> bool {
    table.iter().any(|entry| match entry.strip_suffix('*') {
        Some("-W") => is_warning(text),
        Some(start) => text.starts_with(start),
        None => text == *entry,
    })
}

/// `-W` also passes words on, which are no warnings.
fn is_warning(text: &str) -> bool {
    text.starts_with("-W") && text.as_bytes().get(3) != Some(&b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(line: &str, brand: Brand) -> String {
        let arguments = Arguments::parse(line.split(' ').map(OsString::from));
        compile(&arguments, brand).join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn options_about_other_files_and_other_code_are_dropped() {
        let line = "-O2 -flto=auto -fPIE -MMD -MF a.d -Wall -Wp,-MD,x -Wp,-DX -fsanitize=thread \
                    -fopenmp -DNDEBUG -I inc -c a.c -o a.o";
        let flags = compiled(line, Brand::Gcc { major: 12 });
        let start = "-fvisibility=protected -O2 -Wp,-DX -fopenmp -DNDEBUG -I inc -w -fPIC ";
        assert!(flags.starts_with(start), "{flags}");
        assert!(flags.contains("-g1"));
        assert!(flags.contains("-mno-direct-extern-access"));
    }

    #[test]
    fn code_for_libraries_keeps_its_visibility() {
        let flags = compiled("-fPIE -fPIC -g -c a.c", Brand::Clang);
        let gone = ["visibility", "interposition", "ipa-ra", "extern-access", "-g1"];
        for flag in gone {
            assert!(!flags.contains(flag), "{flags}");
        }
    }

    #[test]
    fn words_for_the_linker_go_with_their_values() {
        let words: Vec<OsString> =
            ["-Map", "x.map", "-rpath", "/x", "-T", "y", "-soname", "z"].map(Into::into).into();
        assert_eq!(linker_words(&words, true), ["-rpath", "/x"]);
        assert_eq!(linker_words(&words, false), ["-rpath", "/x", "-T", "y", "-soname", "z"]);
    }

    #[test]
    fn an_image_may_miss_what_the_process_has_that_loads_it() {
        let words: Vec<OsString> =
            ["-z", "relro", "-z", "defs", "--no-undefined", "-zdefs"].map(Into::into).into();
        assert_eq!(linker_words(&words, true), ["-z", "relro"]);
        let line = "-z relro -z defs";
        let arguments = Arguments::parse(line.split(' ').map(OsString::from));
        let linked: Vec<bool> = arguments.all.iter().map(|one| is_linked(one, true)).collect();
        assert_eq!(linked, [true, false]);
    }
}
