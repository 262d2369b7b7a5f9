//! The library as it is installed: its symbols, its headers, how programs find and link it, and its
//! manual.

use crate::support::{Linked, compile, entry, flags, here, installed, names, pool_in, pools};
use seawall_clib::{compiler, exports, told};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn it_exports_what_the_list_and_the_header_have() {
    let Some(folder) = installed("it_exports_what_the_list_and_the_header_have") else { return };
    let exported = exports(&folder.join("lib").join(entry().soname)).unwrap();
    assert!(exported.iter().all(|symbol| symbol.version == entry().version));
    let exported: Vec<String> = exported.into_iter().map(|symbol| symbol.name).collect();
    assert_eq!(exported, names());
    let header = fs::read_to_string(folder.join("include/libseawall.h")).unwrap();
    let declared = header.split(|c: char| !c.is_alphanumeric() && c != '_');
    let declared: BTreeSet<&str> = declared.filter(|word| word.starts_with("sw_")).collect();
    for name in names() {
        assert!(declared.contains(name.as_str()), "{name} is not in the header");
    }
}

#[test]
fn the_headers_compile_alone_and_without_warnings() {
    let test = "the_headers_compile_alone";
    let Some(installed) = installed(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let languages = [
        ("CC", "cc", "c", &["-std=c11", "-std=c17"][..], &["libseawall.h"][..]),
        ("CXX", "c++", "c++", &["-std=c++17", "-std=c++20"], &["libseawall.h", "libseawall.hpp"]),
    ];
    for (variable, usual, language, standards, headers) in languages {
        let tool = std::env::var_os(variable).unwrap_or_else(|| usual.into());
        if Command::new(&tool).arg("--version").output().is_err() {
            println!("{test}: skipped for {language}, because there is no {usual}");
            continue;
        }
        for (standard, header) in standards
            .iter()
            .flat_map(|standard| headers.iter().map(move |header| (standard, header)))
        {
            let source = folder.path().join("source");
            fs::write(&source, format!("#include <{header}>\n#include <{header}>\n")).unwrap();
            let mut command = Command::new(&tool);
            command.args([standard, "-x", language, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow"]);
            command.args(["-Wconversion", "-Werror", "-fsyntax-only"]).arg(&source);
            let done = command.args(flags(installed, "Cflags")).output().unwrap();
            assert!(done.status.success(), "{header} {standard}: {}", told(&done));
        }
    }
}

/// Of the static library only our names are global: so it can be linked beside any other.
#[test]
fn the_static_library_links_and_defines_our_names_only() {
    let test = "the_static_library_links";
    let Some(folder) = installed(test) else { return };
    let mut nm = Command::new("nm");
    nm.args(["--defined-only", "--extern-only"]).arg(folder.join("lib/libseawall.a"));
    let nm = nm.output().unwrap();
    let text = String::from_utf8(nm.stdout).unwrap();
    let defined: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(defined.into_iter().collect::<Vec<_>>(), names());
    for source in ["examples/phonebook.c", "examples/accounts.cpp"] {
        let Some(program) = compile(test, source, Linked::Static) else { return };
        let pools = pools();
        let pool = pool_in(&pools);
        let mut command = program.command();
        command.env_remove("LD_LIBRARY_PATH").args([&pool, "list"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{source}: {}", told(&output));
    }
}

#[test]
fn the_phone_book_does_what_it_says() {
    let test = "the_phone_book_does_what_it_says";
    let Some(program) = compile(test, "examples/phonebook.c", Linked::Shared) else { return };
    let folder = pools();
    let pool = pool_in(&folder);
    program.printed(&[&pool, "add", "Ada", "1815"]);
    program.printed(&[&pool, "add", "Grace", "1906"]);
    program.printed(&[&pool, "add", "Ada", "1852"]);
    assert_eq!(program.printed(&[&pool, "find", "Ada"]), "1852\n");
    assert_eq!(program.printed(&[&pool, "list"]), "1852 Ada\n1906 Grace\n");
    program.printed(&[&pool, "remove", "Ada"]);
    assert_eq!(program.printed(&[&pool, "list"]), "1906 Grace\n");
}

#[test]
fn pkg_config_and_cmake_find_it() {
    let test = "pkg_config_and_cmake_find_it";
    let Some(installed) = installed(test) else { return };
    let path = installed.join("lib/pkgconfig");
    let mut command = Command::new("pkg-config");
    match command.args(["--cflags", "--libs", "seawall"]).env("PKG_CONFIG_PATH", path).output() {
        Err(_) => println!("{test}: skipped in part, because there is no pkg-config"),
        Ok(done) => {
            assert!(done.status.success(), "{}", told(&done));
            let said = String::from_utf8(done.stdout).unwrap();
            let ours = [flags(installed, "Cflags"), flags(installed, "Libs")].concat();
            assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ours);
        }
    }
    cmake(test, installed);
}

fn cmake(test: &str, installed: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let text = "cmake_minimum_required(VERSION 3.13)\nproject(book C)\n\
                find_package(seawall 0.1 REQUIRED)\nfind_package(Threads REQUIRED)\n\
                add_executable(book book.c)\n\
                target_link_libraries(book seawall::seawall Threads::Threads)\n\
                add_executable(alone book.c)\n\
                target_link_libraries(alone seawall::seawall_static Threads::Threads)\n";
    fs::write(folder.path().join("CMakeLists.txt"), text).unwrap();
    fs::copy(here().join("examples/phonebook.c"), folder.path().join("book.c")).unwrap();
    let build = folder.path().join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(folder.path()).arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", installed.display()));
    configure.arg("-DCMAKE_C_FLAGS=-D_GNU_SOURCE").env("CC", compiler());
    let Ok(done) = configure.output() else {
        println!("{test}: skipped in part, because there is no cmake");
        return;
    };
    assert!(done.status.success(), "{}", told(&done));
    let done = Command::new("cmake").arg("--build").arg(&build).output().unwrap();
    assert!(done.status.success(), "{}", told(&done));
    for program in ["book", "alone"] {
        let pools = pools();
        let done = Command::new(build.join(program)).args([&pool_in(&pools), "list"]).output();
        assert!(done.as_ref().unwrap().status.success(), "{}", told(&done.unwrap()));
    }
}

/// Every function has a page, or a name that leads to one, and the formatter has nothing to say.
#[test]
fn every_function_has_its_manual_page() {
    let test = "every_function_has_its_manual_page";
    let Some(installed) = installed(test) else { return };
    let manual = installed.join("share/man");
    for name in names() {
        let page = manual.join(format!("man3/{name}.3"));
        let mut text = fs::read_to_string(&page).unwrap();
        if let Some(other) = text.strip_prefix(".so ") {
            text = fs::read_to_string(manual.join(other.trim())).unwrap();
        }
        assert!(text.contains(&format!("{name}(")) && text.contains(".SH NAME"), "{name}");
    }
    let pages = fs::read_dir(manual.join("man3")).unwrap().map(|entry| entry.unwrap().path());
    for page in pages.chain([manual.join("man7/libseawall.7")]) {
        let mut command = Command::new("groff");
        let options = ["-man", "-Tutf8", "-ww", "-z", "-rLL=100n"];
        let Ok(done) = command.args(options).arg(&page).current_dir(&manual).output() else {
            println!("{test}: skipped in part, because there is no groff");
            return;
        };
        assert!(done.status.success() && done.stderr.is_empty(), "{page:?}: {}", told(&done));
    }
}

/// The program on the page of the manual, run twice.
#[test]
fn the_program_of_the_page_counts_its_runs() {
    let test = "the_program_of_the_page_counts_its_runs";
    let page = fs::read_to_string(here().join("../../docs/libseawall.md")).unwrap();
    let program = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("count.c");
    fs::write(&source, program).unwrap();
    let Some(program) = compile(test, source.to_str().unwrap(), Linked::Shared) else { return };
    for run in 1..4 {
        let output = program.command().current_dir(folder.path()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("run {run}\n"));
    }
}

#[test]
fn the_objects_of_cpp_do_what_the_calls_do() {
    let test = "the_objects_of_cpp_do_what_the_calls_do";
    let Some(program) = compile(test, "tests/c/objects.cpp", Linked::Shared) else { return };
    let folder = pools();
    program.printed(&[&pool_in(&folder)]);
}
