//! The driver is a compiler for what builds programs: make, CMake, scripts of autoconf.

use crate::place::{Place, have};

#[test]
fn files_of_dependencies_are_those_of_the_native_compilation() {
    let Some(place) = Place::new() else { return };
    place.write("a.h", "");
    place.write("a.c", "#include \"a.h\"\nint a;\n");
    for options in ["-MMD", "-MD -MF x.d -MT target", "-MMD -MP -MQ t", "-Wp,-MD,x.d", "-MMDx"] {
        let files = "cat *.d; ls; rm -f *.d a.o";
        let options = options.trim_end_matches('x');
        let ours = place.run(&format!("seawall-cc {options} -c a.c -o a.o && {files}"));
        let theirs = place.run(&format!("gcc {options} -c a.c -o a.o && {files}"));
        assert_eq!(ours, theirs, "{options}");
    }
    let variable = "DEPENDENCIES_OUTPUT=deps";
    let ours = place.run(&format!("{variable} seawall-cc -c a.c && cat deps; rm deps"));
    let theirs = place.run(&format!("{variable} gcc -c a.c && cat deps; rm deps"));
    assert_eq!(ours, theirs);
}

#[test]
fn files_besides_the_object_are_those_of_the_native_compilation() {
    let Some(place) = Place::new() else { return };
    place.write("a.c", "int main(void) { return 0; }\n");
    for options in ["-save-temps", "--coverage", "-g -gsplit-dwarf", "-fstack-usage -Wa,-al=a.lst"]
    {
        let list = "cd .. && ls work && rm -r work";
        let make =
            |cc: &str| format!("mkdir -p work && cd work && {cc} {options} -c ../a.c && {list}");
        let ours = place.run(&make("seawall-cc"));
        assert_eq!(ours, place.run(&make("gcc")), "{options}");
        let link =
            |cc: &str| format!("mkdir -p work && cd work && {cc} {options} ../a.c && {list}");
        assert_eq!(place.run(&link("seawall-cc")), place.run(&link("gcc")), "{options}");
    }
}

#[test]
fn response_files_and_standard_input_are_read() {
    let Some(place) = Place::new() else { return };
    let code = "#include <stdio.h>\nint main(void) { puts(TEXT); return 0; }\n";
    place.write("a b.c", code);
    place.write("words", "-O2 '-DTEXT=\"x y\"' 'a b.c'\n-o \"pro\\gram\"");
    place.run("seawall-cc @words");
    assert_eq!(place.run_image("program"), ("x y\n".into(), vec![]));
    place.write("code", code);
    place.run("seawall-cc -DTEXT='\"in\"' -x c - -o piped < code");
    assert_eq!(place.run("./piped"), "in\n");
    assert_eq!(place.run_image("piped"), ("in\n".into(), vec![]));
    place.run("cat code | seawall-cc -DTEXT='\"in\"' -c -xc - -o a.o && seawall-cc a.o");
    assert_eq!(place.run_image("./a.out"), ("in\n".into(), vec![]));
}

#[test]
fn what_is_not_compiled_is_the_compilers_business() {
    let Some(place) = Place::new() else { return };
    place.write("a.c", "#include <stddef.h>\nint a;\n");
    let questions = [
        "--version",
        "-dumpmachine",
        "-print-search-dirs",
        "-E a.c",
        "-MM a.c",
        "-S a.c -o -",
        "-fsyntax-only a.c",
        "-dM -E - < /dev/null",
        "-###",
        "-dumpversion",
        "-E - < a.c",
        "-c a.c -o /dev/null -Wall",
    ];
    for question in questions {
        let said = |cc: &str| {
            let output = place.try_run(&format!("{cc} {question}"));
            (output.status.code(), output.stdout, output.stderr)
        };
        let mut ours = said("seawall-cc");
        let theirs = said("gcc");
        ours.2.truncate(theirs.2.len());
        assert_eq!(ours, theirs, "{question}");
    }
}

#[test]
fn failures_are_the_compilers_own() {
    let Some(place) = Place::new() else { return };
    place.write("conftest.c", "#include <no/such/header.h>\nint main(void) { return 0; }\n");
    place.write("link.c", "int missing(void); int main(void) { return missing(); }\n");
    for words in
        ["-c conftest.c", "conftest.c -o x", "link.c", "-c none.c", "-no-such-option link.c"]
    {
        let said = |cc: &str| {
            let output = place.try_run(&format!("{cc} {words}"));
            let error = String::from_utf8(output.stderr).unwrap();
            (output.status.code(), error.replace(|letter: char| letter.is_ascii_digit(), ""))
        };
        let (ours, theirs) = (said("seawall-cc"), said("gcc"));
        assert_eq!(ours.0, theirs.0, "{words}");
        assert_eq!(ours.0, Some(1));
        assert_eq!(ours.1.lines().count(), theirs.1.lines().count(), "{words}");
    }
    let place = place.with("SEAWALL_CC", "no-such-compiler");
    let output = place.try_run("seawall-cc -c link.c");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("cannot run no-such-compiler"), "{error}");
    let place = place.with("SEAWALL_CC", "seawall-cc");
    let error = String::from_utf8(place.try_run("seawall-cc -c link.c").stderr).unwrap();
    assert!(error.contains("SEAWALL_CC names seawall's own compiler"), "{error}");
}

#[test]
fn what_cannot_be_instrumented_is_noted_and_told_when_it_is_run() {
    let Some(place) = Place::new() else { return };
    let place = place.with("SEAWALL_TEST_INSTRUMENT", "refuse");
    place.write("bad.c", "int refused(void) { return 4; }\n");
    place.write("good.c", "#include <stdio.h>\nint main(void) { puts(\"ok\"); return 0; }\n");
    place.write("user.c", "int refused(void); int main(void) { return refused() - 4; }\n");
    let compiled = place.try_run("seawall-cc -c bad.c");
    assert!(compiled.status.success());
    let warning = String::from_utf8(compiled.stderr).unwrap();
    let reason = "bad.c: an instruction that is refused";
    assert!(warning.contains("warning: bad.o will not run on the machines"), "{warning}");
    assert!(warning.contains(reason), "{warning}");
    place.run("ar rcs libbad.a bad.o");
    assert!(place.try_run("seawall-cc user.c libbad.a -o user && ./user").status.success());
    assert!(place.refusal("./user").contains(reason));
    // Nothing is refused that is not linked.
    place.run("seawall-cc good.c -L. -lbad -o good");
    assert_eq!(place.run_image("good"), ("ok\n".into(), vec![]));
    place.try_run("seawall-cc -shared -fPIC bad.c -o libbad.so");
    assert!(place.try_run("seawall-cc good.c ./libbad.so -o good && ./good").status.success());
    assert!(place.refusal("./good").contains(reason));
    let refused = place.try_run("seawall-cc -masm=intel -c good.c");
    assert!(refused.status.success());
    assert!(String::from_utf8(refused.stderr).unwrap().contains("-masm=intel is not supported"));
}

#[test]
fn a_makefile_runs_many_at_once() {
    let Some(place) = Place::new() else { return };
    if !have("make") {
        return;
    }
    let makefile = "CFLAGS = -O1 -MMD\nobjects = $(patsubst %,part%.o,0 1 2 3 4 5 6 7 8 9)
program: main.o libparts.a\n\t$(CC) $^ -o $@
libparts.a: $(objects)\n\t$(AR) rcs $@ $^\n";
    place.write("Makefile", makefile);
    let mut main = String::from("#include <stdio.h>\n");
    for number in 0..10 {
        let text = format!("int part{number}(void) {{ return {number}; }}\n");
        place.write(&format!("part{number}.c"), &text);
        main += &format!("int part{number}(void);\n");
    }
    let sum: Vec<_> = (0..10).map(|number| format!("part{number}()")).collect();
    main += &format!("int main(void) {{ printf(\"%d\\n\", {}); return 0; }}\n", sum.join(" + "));
    place.write("main.c", &main);
    place.run("make -s -j8 CC=seawall-cc");
    assert_eq!(place.run("./program"), "45\n");
    assert_eq!(place.run_image("program"), ("45\n".into(), vec![]));
    assert!(place.run("make CC=seawall-cc").contains("up to date"));
}

#[test]
fn cmake_takes_it_for_the_compiler_that_it_is() {
    let Some(place) = Place::new() else { return };
    if !have("cmake") || !have("make") {
        return;
    }
    place.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.10)\nproject(small C CXX)
find_package(Threads REQUIRED)\ninclude(CheckTypeSize)\ninclude(TestBigEndian)
check_type_size(long LONG)\ntest_big_endian(BIG)
message(STATUS \"found ${CMAKE_C_COMPILER_ID} ${CMAKE_CXX_COMPILER_ID} ${LONG} ${BIG}.\")
include(CheckIPOSupported)\ncheck_ipo_supported(LANGUAGES C CXX)
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
add_library(one STATIC one.c)\nadd_library(two SHARED two.cc)\nadd_executable(main main.c)
target_link_libraries(main one two Threads::Threads)\n",
    );
    place.write("one.c", "int one(void) { return 1; }\n");
    place.write(
        "two.cc",
        "#include <string>\nextern \"C\" int two() { return std::string(\"ab\").size(); }\n",
    );
    place.write(
        "main.c",
        "#include <stdio.h>\nint one(void), two(void);
        int main(void) { printf(\"%d\\n\", one() + two()); return 0; }\n",
    );
    let compilers = "-DCMAKE_C_COMPILER=seawallcc -DCMAKE_CXX_COMPILER=seawallc++";
    let said = place.run(&format!("cmake -S . -B build {compilers} -DCMAKE_BUILD_TYPE=Release"));
    assert!(said.contains("found GNU GNU 8 0."), "{said}");
    place.run("cmake --build build -j4");
    assert_eq!(place.run("build/main"), "3\n");
    assert_eq!(place.run_image("build/main"), ("3\n".into(), vec![]));
}

#[test]
fn a_program_of_another_c_library_is_refused_in_one_line_and_runs_on_the_hardware() {
    let Some(place) = Place::new() else { return };
    place.write("other/features.h", "");
    place.write("main.c", "int main(void) { return 0; }\n");
    let other = [have("musl-gcc").then_some("musl-gcc"), Some("gcc -Iother")];
    for compiler in other.into_iter().flatten() {
        for options in ["", "-static"] {
            let build = format!("SEAWALL_CC='{compiler}' seawall-cc {options} main.c -o main");
            let built = place.try_run(&format!("{build} && ./main"));
            assert!(built.status.success(), "{compiler} {options}");
            let refusal = place.refusal("main");
            let told = format!("`{compiler}` builds for another C library than glibc");
            assert!(refusal.contains(&told) && refusal.lines().count() == 1, "{refusal}");
        }
    }
}

#[test]
fn clang_is_a_compiler_too() {
    let Some(place) = Place::new() else { return };
    if !have("clang") {
        return;
    }
    let place = place.with("SEAWALL_CC", "clang").with("SEAWALL_CXX", "clang --driver-mode=g++");
    place.write("part.c", "static _Thread_local int calls; int part(void) { return ++calls; }\n");
    place.write(
        "main.cc",
        "#include <iostream>\n#include <stdexcept>\nextern \"C\" int part();
        int main() {
            try { throw std::runtime_error(\"thrown \" + std::to_string(part() + part())); }
            catch (const std::exception &e) { std::cout << e.what() << std::endl; }
            return 0; }",
    );
    for options in ["-O2", "-O0 -g", "-O1 -fPIC"] {
        place.run(&format!("seawall-cc {options} -c part.c && seawall-c++ {options} -c main.cc"));
        place.run("rm -f libpart.a; ar rcs libpart.a part.o; seawall-c++ main.o libpart.a -o one");
        assert_eq!(place.run("./one"), "thrown 3\n", "{options}");
        assert_eq!(place.run_image("one"), ("thrown 3\n".into(), vec![]), "{options}");
    }
    let output = place.try_run("seawall-cc -flto -c part.c");
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && warning.contains("compile it without -flto"), "{warning}");
}
