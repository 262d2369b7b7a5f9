//! Programs are built in the ways of their users; the native one and its image do the same.

use crate::place::Place;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const PART: &str = "static _Thread_local int calls; int shared = 40;
int part(void) { return ++calls + shared; }\n";
const MAIN: &str = "#include <stdio.h>
extern int shared; int part(void);
int main(void) { shared++; printf(\"%d\\n\", part() + part()); return 0; }\n";
const SAID: &str = "85\n";

fn place() -> Option<Place> {
    let place = Place::new()?;
    place.write("part.c", PART);
    place.write("main.c", MAIN);
    Some(place)
}

#[test]
fn an_object_is_the_compilers_own_but_for_its_section() {
    let Some(place) = place() else { return };
    for options in ["-O2", "-O0 -g", "-O2 -g -fPIC -ffunction-sections"] {
        place.run(&format!("seawall-cc {options} -c part.c -o ours.o"));
        place.run(&format!("gcc {options} -c part.c -o theirs.o"));
        place.run("objcopy --remove-section .seawall ours.o ours2.o; objcopy theirs.o theirs2.o");
        assert_eq!(place.read("ours2.o"), place.read("theirs2.o"), "{options}");
        // What the native code consists of has not even moved.
        let (ours, theirs) = (place.read("ours.o"), place.read("theirs.o"));
        assert_eq!(ours[64..theirs.len()], theirs[64..], "{options}");
    }
}

#[test]
fn objects_are_linked_and_the_image_does_what_the_program_does() {
    let Some(place) = place() else { return };
    place.run("seawall-cc -O2 -c part.c && seawall-cc -O2 -fvisibility=hidden -c main.c");
    place.run("seawall-cc part.o main.o -o program");
    assert_eq!(place.run("./program"), SAID);
    assert_eq!(place.run_image("program"), (SAID.into(), vec![]));
    // Without the driver the sections are dropped.
    place.run("gcc part.o main.o -o plain");
    assert_eq!(place.run("./plain"), SAID);
    assert!(place.refusal("./plain").contains("./plain has no code for the machines of seawall"));
}

#[test]
fn sources_are_compiled_and_linked_at_once() {
    let Some(place) = place() else { return };
    for options in ["-O2", "-no-pie -fno-pie", "-static -O1 -s", "-flto -O2 -Wl,-Map,x.map", "-g3"]
    {
        place.run(&format!("seawall-cc {options} main.c part.c -omixed -lm"));
        assert_eq!(place.run("./mixed"), SAID, "{options}");
        assert_eq!(place.run_image("mixed").0, SAID, "{options}");
    }
    place.run("seawall-cc -c part.c && seawall-cc part.o -x c main.c");
    assert_eq!(place.run("./a.out"), SAID);
    assert_eq!(place.run_image("./a.out").0, SAID);
}

#[test]
fn parts_that_are_not_instrumented_are_named() {
    let Some(place) = place() else { return };
    place.run("gcc -fPIC -c part.c && seawall-cc main.c part.o -o program");
    assert_eq!(place.run_image("program"), (SAID.into(), vec!["part.o".into()]));
    place.run("ar rcs libpart.a part.o && seawall-cc main.c -L. -lpart -o program");
    assert_eq!(place.run_image("program"), (SAID.into(), vec!["libpart.a".into()]));
    place.run("gcc -shared part.o -o libpart.so && seawall-cc main.c ./libpart.so -o program");
    assert_eq!(place.run_image("program"), (SAID.into(), vec!["./libpart.so".into()]));
}

#[test]
fn static_libraries_hold_both_kinds_of_code() {
    let Some(place) = place() else { return };
    place.write("unused.c", "int unused(void) { return 1; }");
    place.write("hook.c", "int hooked; __attribute__((constructor)) void h(void) { hooked = 1; }");
    place.run("seawall-cc -O2 -c part.c main.c && gcc -O2 -c unused.c && seawall-cc -c hook.c");
    for kind in ["rcs", "rcsT"] {
        place.run(&format!(
            "rm -f *.a; ar {kind} libpart.a unused.o part.o; ar {kind} libm.a main.o"
        ));
        place.run("seawall-cc main.o -L . -lpart -o program");
        assert_eq!(place.run_image("program"), (SAID.into(), vec![]));
        // There, `main` is in a library.
        place.run("seawall-cc -L . -Wl,--start-group ./libm.a -l:libpart.a -Wl,--end-group -o two");
        assert_eq!(place.run("./two"), SAID);
        assert_eq!(place.run_image("two").0, SAID);
    }
    place.write(
        "whole.c",
        "#include <stdio.h>\nextern int hooked __attribute__((weak));
        int main(void) { printf(\"%d\\n\", &hooked ? hooked : -1); }",
    );
    place.run("ar rcs libhook.a hook.o");
    place.run("seawall-cc whole.c -Wl,--whole-archive,libhook.a,--no-whole-archive -o whole");
    assert_eq!(place.run("./whole"), "1\n");
    assert_eq!(place.run_image("whole").0, "1\n");
    place.run("seawall-cc whole.c libhook.a -o lazy");
    assert_eq!(place.run_image("lazy").0, place.run("./lazy"));
}

#[test]
fn shared_libraries_have_images_of_their_own() {
    let Some(place) = place() else { return };
    place.write("base.c", "int base(void) { return 1; }");
    place.write(
        "lib.c",
        "int base(void); extern int own(void); int lib(void) { return base() + own(); }",
    );
    place.write(
        "user.c",
        "#include <stdio.h>\nint lib(void); int own(void) { return 40; }
        int base(void) { return 2; }\nint main(void) { printf(\"%d\\n\", lib()); }",
    );
    place.run(
        "mkdir lib; seawall-cc -fPIC -shared base.c -o lib/libbase.so.1 -Wl,-soname,libbase.so.1",
    );
    place.run("ln -s libbase.so.1 lib/libbase.so; seawall-cc -fPIC -c lib.c");
    place.run("seawall-cc -shared lib.o -Llib -lbase -Wl,-rpath,'$ORIGIN' -o lib/liblib.so");
    place.run("seawall-cc user.c -Llib -llib -Wl,-rpath-link,lib -Wl,-rpath,'$ORIGIN/lib' -o user");
    // The program's `base` is found before that of the library, natively and in the image.
    assert_eq!(place.run("./user"), "42\n");
    assert_eq!(place.run_image("user"), ("42\n".into(), vec![]));
    assert!(place.path("image-user/libbase.so.1").is_file());
    place.run("seawall-cc user.c lib/liblib.so -Llib -lbase -o bare");
    let place = place.with("LD_LIBRARY_PATH", "lib");
    assert_eq!(place.run_image("bare").0, "42\n");
    place.run("rm image-bare/liblib.so");
    assert!(place.path("image-bare/libbase.so.1").is_file());
}

#[test]
fn cpp_programs_start_and_throw() {
    let Some(place) = place() else { return };
    place.write(
        "lib.cc",
        "#include <stdexcept>\n#include <string>
        void fail(const std::string &what) { throw std::runtime_error(what); }",
    );
    place.write(
        "main.cc",
        "#include <iostream>\n#include <map>\n#include <new>\n#include <cstdlib>
        #include <string>\nvoid fail(const std::string &);
        static int news;
        void *operator new(std::size_t n) { news++; return std::malloc(n); }
        void operator delete(void *p) noexcept { std::free(p); }
        void operator delete(void *p, std::size_t) noexcept { std::free(p); }
        static std::map<int, std::string> names = {{1, \"a string that is long enough\"}};
        int main() {
            try { fail(names[1]); } catch (const std::exception &e) {
                std::cout << e.what() << ' ' << (news > 1) << std::endl;
            }
            return 0; }",
    );
    let said = "a string that is long enough 1\n";
    for options in
        ["-O2", "-O0 -g -mno-red-zone", "-O2 -fvisibility=hidden -fvisibility-inlines-hidden"]
    {
        place.run(&format!("seawall-c++ {options} -std=c++17 main.cc lib.cc -o program"));
        assert_eq!(place.run("./program"), said);
        assert_eq!(place.run_image("program"), (said.into(), vec![]));
    }
    place.run("seawall-c++ -O1 -fPIC -shared lib.cc -o liblib.so");
    place.run("seawall-c++ -O1 main.cc -L. -llib -Wl,-rpath,. -o program");
    assert_eq!(place.run("./program"), said);
    assert_eq!(place.run_image("program"), (said.into(), vec![]));
}

#[test]
fn assembly_is_a_source_too() {
    let Some(place) = place() else { return };
    let code = "\t.globl part\n\t.type part, @function\npart:\tmovl $VALUE, %eax\n\tret\n
        .section .note.GNU-stack,\"\",@progbits\n\t.data\n\t.globl shared\nshared:\t.long 0\n";
    place.write("one.s", &code.replace("VALUE", "21"));
    place.write("two.S", &format!("#define VALUE 42\n{code}"));
    for (source, said) in [("one.s", "42\n"), ("two.S", "84\n")] {
        place.run(&format!("seawall-cc -fPIC -c {source} -o code.o && seawall-cc main.c code.o"));
        assert_eq!(place.run("./a.out"), said);
        assert_eq!(place.run_image("./a.out"), (said.into(), vec![]));
    }
}

#[test]
fn partial_links_keep_what_was_instrumented() {
    let Some(place) = place() else { return };
    place.run("seawall-cc -c part.c main.c");
    for command in ["seawall-cc -r -nostdlib", "ld -r", "gcc -r"] {
        place.run(&format!("{command} part.o main.o -o both.o && seawall-cc both.o -o program"));
        assert_eq!(place.run("./program"), SAID);
        assert_eq!(place.run_image("program"), (SAID.into(), vec![]), "{command}");
    }
}

#[test]
fn programs_may_be_stripped_and_installed() {
    let Some(place) = place() else { return };
    place.run("seawall-cc main.c part.c -o program");
    place.run("cp program copied; strip -o stripped program; install -s program installed");
    place.run("strip -g -o lean program; objcopy --only-keep-debug program program.debug");
    for name in ["copied", "stripped", "installed", "lean"] {
        assert_eq!(place.run(&format!("./{name}")), SAID);
        assert_eq!(place.run_image(name).0, SAID, "{name}");
    }
    place.run("seawall-cc -c part.c main.c; strip -g part.o; strip --strip-unneeded main.o");
    place.run("seawall-cc part.o main.o -o program");
    assert_eq!(place.run_image("program"), (SAID.into(), vec![]));
}

#[test]
fn outputs_keep_their_names_and_rights() {
    let Some(place) = place() else { return };
    place.run("mkdir out; umask 027; seawall-cc -c part.c -o out/part.o; seawall-cc -c main.c");
    assert_eq!(fs::metadata(place.path("out/part.o")).unwrap().permissions().mode() & 0o777, 0o640);
    place.run("umask 027; seawall-cc main.o out/part.o -o out/program");
    let rights = fs::metadata(place.path("out/program")).unwrap().permissions();
    assert_eq!(rights.mode() & 0o777, 0o750);
    let left: Vec<_> = fs::read_dir(place.path("out")).unwrap().collect();
    assert_eq!(left.len(), 2, "something was left behind");
    place.run("seawall-cc -c part.c -o /dev/null && test -c /dev/null");
}

#[test]
fn an_image_may_miss_symbols_of_its_program() {
    let Some(place) = place() else { return };
    // Only what starts a program has this one.
    place.write(
        "start.c",
        "#include <stdio.h>\nextern char __data_start[];
        int main(int count, char **words) { return count > 9 ? puts(__data_start) : 0; }",
    );
    place.run("seawall-cc start.c -o start -Wl,-z,defs && ./start");
    let image = place.extract("start").0;
    assert!(image.ends_with("/start.seawall.so"), "{image}");
    place.run("seawall-cc main.c part.c -Wl,-z,defs -z defs -o program");
    assert_eq!(place.run_image("program").0, SAID);
}

#[test]
fn an_image_sees_the_variables_of_the_c_library() {
    let Some(place) = place() else { return };
    place.write(
        "vars.c",
        "#include <stdio.h>\n#include <string.h>\nextern char **environ;
        int main(void) { for (char **e = environ; *e; e++) if (!strncmp(*e, \"LC_ALL=\", 7))
            fprintf(stdout, \"%s\\n\", *e); return 0; }",
    );
    for options in ["-O2", "-O2 -no-pie -fno-pie", "-O2 -fPIC"] {
        place.run(&format!("seawall-cc {options} vars.c -o vars"));
        assert_eq!(place.run("./vars"), "LC_ALL=C\n");
        assert_eq!(place.run_image("vars"), ("LC_ALL=C\n".into(), vec![]), "{options}");
    }
}

#[test]
fn the_header_of_seawall_is_found_behind_the_folders_of_the_user() {
    let Some(place) = Place::new() else { return };
    place.write(
        "says.c",
        "#include <seawall.h>\nint main(void) { seawall_orders(); return OWN; }\n",
    );
    place.run("seawall-cc -DOWN=0 says.c -o says && ./says");
    place.write("seawall.h", "#define OWN 0\n#define seawall_orders()\n");
    place.run("seawall-cc -I. says.c -o says && ./says");
}
