//! A small library in C, linked as a whole.

use super::*;
use std::os::unix::fs::MetadataExt;

/// A folder with a static library; none, which is said, without a compiler.
fn archive(test: &str, source: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    let (object, archive) = (folder.path().join("a.o"), folder.path().join("liba.a"));
    fs::write(folder.path().join("a.c"), source).unwrap();
    let mut compile = Command::new(compiler());
    compile.args(["-c", "-fPIC", "a.c"]).current_dir(folder.path());
    let mut pack = Command::new("ar");
    pack.arg("rcs").args([&archive, &object]);
    for mut command in [compile, pack] {
        match command.status() {
            Ok(status) => assert!(status.success(), "{command:?}"),
            Err(error) => {
                println!("{test}: skipped, because {command:?} cannot run: {error}");
                return None;
            }
        }
    }
    Some((folder, archive))
}

const SOURCE: &str = "int inner(void) { return 1; } int two(void) { return inner() + 1; }";

fn library<'a>(archive: &'a Path, sources: &'a [PathBuf], symbols: &'a str) -> SharedLibrary<'a> {
    let code = LibraryCode::Archive(archive);
    SharedLibrary { code, sources, soname: "liba.so.1", version: "LIBA_1.0", symbols }
}

fn exported(path: &Path) -> Vec<(String, String)> {
    let symbols = exports(path).unwrap().into_iter();
    symbols.map(|symbol| (symbol.name, symbol.version)).collect()
}

#[test]
fn what_is_listed_is_exported_with_its_version_and_nothing_else_is() {
    let test = "what_is_listed_is_exported_with_its_version_and_nothing_else_is";
    let Some((folder, archive)) = archive(test, SOURCE) else { return };
    let shim = folder.path().join("shim.c");
    fs::write(&shim, "int two(void); int three(int n, ...) { return two() + n; }").unwrap();
    let sources = [shim];
    let output = folder.path().join("new/lib");
    let library = library(&archive, &sources, "# of numbers\ntwo\n\nthree\n");
    let first = library.link(&output).unwrap();
    let version = || "LIBA_1.0".to_owned();
    let expected = [("three".to_owned(), version()), ("two".to_owned(), version())];
    assert_eq!(exported(&first), expected);
    assert_eq!(fs::read_link(output.join("liba.so")).unwrap(), Path::new("liba.so.1"));
    let inode = fs::metadata(&first).unwrap().ino();
    assert_eq!(library.link(&output).unwrap(), first, "again, over it");
    assert_ne!(fs::metadata(&first).unwrap().ino(), inode, "a program may be using the old one");
    assert_eq!(fs::read_dir(&output).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn a_symbol_that_nothing_defines_is_an_error_and_leaves_no_file() {
    let test = "a_symbol_that_nothing_defines_is_an_error_and_leaves_no_file";
    let Some((folder, archive)) = archive(test, "int away(void); int two(void) { return away(); }")
    else {
        return;
    };
    let output = folder.path().join("lib");
    let error = library(&archive, &[], "two").link(&output).unwrap_err();
    assert!(matches!(&error, ClibError::Link { says, .. } if says.contains("away")), "{error}");
    let Some((_folder, archive)) = self::archive(test, SOURCE) else { return };
    let error = library(&archive, &[], "two\nfour").link(&output).unwrap_err();
    assert!(matches!(&error, ClibError::Lacks { symbols, .. } if symbols == "four"), "{error}");
    assert_eq!(fs::read_dir(&output).unwrap().count(), 0);
}

#[test]
fn what_is_missing_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none.a");
    let error = library(&none, &[], "two").link(folder.path()).unwrap_err().to_string();
    assert!(error.contains("none.a"), "{error}");
    let wrong = SharedLibrary { soname: "a.dll", ..library(&none, &[], "two") };
    assert!(wrong.link(folder.path()).unwrap_err().to_string().contains("libpmem.so.1"));
    let error = built_beside_this_test("libnone.a", "seawall-none").unwrap_err().to_string();
    assert!(error.contains("cargo build -p seawall-none"), "{error}");
    fs::write(&none, "text").unwrap();
    let error = exports(&none).unwrap_err().to_string();
    assert!(error.contains("no shared object"), "{error}");
    let source = io::ErrorKind::NotFound.into();
    let error = ClibError::NoCompiler { tool: "cc".into(), source }.to_string();
    assert!(error.contains("apt install gcc") && error.contains("CC"), "{error}");
}
