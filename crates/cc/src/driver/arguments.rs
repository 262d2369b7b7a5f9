//! The arguments of a compiler, read as gcc and clang read them: what is a source, what an object,
//! what only an option, and which words belong together.
//!
//! Nothing is refused here: the user's compiler has read the same words, and says what is wrong.

use super::response;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One argument with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    /// As typed: one word or two.
    pub(super) words: Vec<OsString>,
    pub(super) what: What,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A file to compile; its language if `-x` says so.
    Source(PathBuf, Option<String>),
    /// A file for the linker.
    Input(PathBuf),
    /// The `foo` or `:libfoo.a` of `-lfoo`.
    Library(OsString),
    /// The folder of `-L`.
    LibraryFolder(PathBuf),
    /// The file of `-o`.
    Output(PathBuf),
    /// The language of `-x`.
    Language,
    /// The words of `-Wl,` or `-Xlinker`.
    Linker(Vec<OsString>),
    /// The words of `-Wa,` or `-Xassembler`.
    Assembler(Vec<OsString>),
    /// Any other option.
    Option,
}

/// What the compiler is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Nothing that leaves code: it is the compiler's business alone.
    Other,
    /// Objects, one for each source.
    Compile,
    /// One file from all sources and objects.
    Link,
}

/// All arguments, in their order.
#[derive(Debug)]
pub(super) struct Arguments {
    pub(super) all: Vec<Argument>,
}

/// Options whose value is the next word. Those of [`JOINED`], too, if nothing follows the letter.
const SEPARATE: [&str; 48] = [
    "-A",
    "-B",
    "-MF",
    "-MJ",
    "-MQ",
    "-MT",
    "-V",
    "-Xclang",
    "-Xpreprocessor",
    "-arch",
    "-aux-info",
    "-b",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-gcc-toolchain",
    "-idirafter",
    "-imacros",
    "-imultiarch",
    "-imultilib",
    "-include",
    "-include-pch",
    "-iplugindir",
    "-iprefix",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-mllvm",
    "-specs",
    "-target",
    "-wrapper",
    "-z",
    "--dump",
    "--dumpbase",
    "--dumpdir",
    "--entry",
    "--include",
    "--include-directory",
    "--define-macro",
    "--undefine-macro",
    "--param",
    "--sysroot",
    "--force-link",
    "-Tbss",
    "-Tdata",
    "-Ttext",
];

/// Options whose value is the rest of the word, or the next word if there is none.
const JOINED: [&str; 7] = ["-D", "-I", "-T", "-U", "-e", "-u", "-G"];

/// What ends the work before there is an object.
const NO_CODE: [&str; 9] =
    ["-E", "-M", "-MM", "-S", "-fsyntax-only", "-###", "--preprocess", "--assemble", "--version"];

/// The ends of names of sources, as gcc knows them; those of headers make precompiled ones.
const SOURCES: [&str; 35] = [
    "c", "i", "cc", "cp", "cxx", "cpp", "CPP", "c++", "C", "ii", "s", "S", "sx", "m", "mi", "mm",
    "M", "mii", "f", "for", "ftn", "F", "FOR", "fpp", "FPP", "FTN", "f90", "f95", "f03", "f08",
    "F90", "F95", "F03", "F08", "d",
];
const HEADERS: [&str; 9] = ["h", "hh", "H", "hp", "hxx", "hpp", "HPP", "h++", "tcc"];

impl Arguments {
    /// Reads the words, with those of the files named by `@file`.
    pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> Self {
        let mut words = response::expand(words).into_iter();
        let mut all: Vec<Argument> = Vec::new();
        let mut language = None;
        while let Some(word) = words.next() {
            let next = read(word, &mut words, &mut language);
            match (all.last_mut(), &next.what) {
                // An option of the linker and its value may come in two words for it.
                (Some(Argument { words, what: What::Linker(passed) }), What::Linker(more)) => {
                    words.extend(next.words);
                    passed.extend_from_slice(more);
                }
                _ => all.push(next),
            }
        }
        Arguments { all }
    }

    /// What is asked for.
    pub(super) fn task(&self) -> Task {
        let options = || self.options();
        let asks = |text: &str| {
            NO_CODE.contains(&text)
                || text.starts_with("-print-")
                || text.starts_with("--print-")
                || text.starts_with("--help")
                || text.starts_with("-dump")
                    && !text.starts_with("-dumpbase")
                    && !text.starts_with("-dumpdir")
        };
        let is_input = |one: &Argument| {
            matches!(one.what, What::Source(..) | What::Input(_) | What::Library(_))
        };
        let has_input = self.all.iter().any(is_input);
        if !has_input || options().any(|text| asks(&text)) || self.sources().any(is_header) {
            return Task::Other;
        }
        match options().any(|text| text == "-c" || text == "--compile") {
            true => Task::Compile,
            false => Task::Link,
        }
    }

    /// The sources, with their languages.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&Path, Option<&str>)> {
        self.all.iter().filter_map(|argument| match &argument.what {
            What::Source(path, language) => Some((path.as_path(), language.as_deref())),
            _ => None,
        })
    }

    /// The file of `-o`, the last one.
    pub(super) fn output(&self) -> Option<&Path> {
        self.all.iter().rev().find_map(|argument| match &argument.what {
            What::Output(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// The folders of `-L`.
    pub(super) fn library_folders(&self) -> impl Iterator<Item = &Path> {
        self.all.iter().filter_map(|argument| match &argument.what {
            What::LibraryFolder(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// The first words of plain options.
    pub(super) fn options(&self) -> impl Iterator<Item = String> {
        self.all.iter().filter(|one| one.what == What::Option).map(Argument::text)
    }

    /// The words that go to the linker alone.
    pub(super) fn linker_words(&self) -> impl Iterator<Item = &OsStr> {
        self.all.iter().flat_map(|argument| match &argument.what {
            What::Linker(words) => words.iter().map(OsString::as_os_str).collect(),
            _ => Vec::new(),
        })
    }
}

impl Argument {
    /// The first word, to be compared.
    pub(super) fn text(&self) -> String {
        self.words[0].to_string_lossy().into_owned()
    }
}

/// True if the compiler makes a precompiled header of it.
fn is_header((path, language): (&Path, Option<&str>)) -> bool {
    match language {
        Some(language) => language.ends_with("-header"),
        None => has_ending(path, &HEADERS),
    }
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|ending| endings.contains(&ending))
}

/// The argument that begins with this word.
fn read(
    word: OsString,
    rest: &mut impl Iterator<Item = OsString>,
    language: &mut Option<String>,
) -> Argument {
    let text = word.to_string_lossy().into_owned();
    if !text.starts_with('-') || text == "-" {
        let path = PathBuf::from(&word);
        let is_source =
            language.is_some() || has_ending(&path, &SOURCES) || has_ending(&path, &HEADERS);
        let what = match is_source || text == "-" {
            true => What::Source(path, language.clone()),
            false => What::Input(path),
        };
        return Argument { words: vec![word], what };
    }
    for (name, long) in
        [("-o", "--output"), ("-l", ""), ("-L", "--library-directory"), ("-x", "--language")]
    {
        if let Some((words, value)) = value(&word, name, long, rest) {
            let what = match name {
                "-o" => What::Output(value.into()),
                "-l" => What::Library(value),
                "-L" => What::LibraryFolder(value.into()),
                _ => {
                    let named = value.to_string_lossy().into_owned();
                    *language = Some(named).filter(|named| named != "none");
                    What::Language
                }
            };
            return Argument { words, what };
        }
    }
    let passed = [("-Wl,", "-Xlinker"), ("-Wa,", "-Xassembler")];
    for (index, (joined, separate)) in passed.into_iter().enumerate() {
        let (words, passed) = if text.starts_with(joined) {
            let parts = word.as_bytes()[joined.len()..].split(|byte| *byte == b',');
            let parts = parts.map(|part| OsStr::from_bytes(part).to_owned()).collect();
            (vec![word.clone()], parts)
        } else if text == separate {
            let next: Vec<OsString> = rest.next().into_iter().collect();
            ([vec![word.clone()], next.clone()].concat(), next)
        } else {
            continue;
        };
        let what = if index == 0 { What::Linker(passed) } else { What::Assembler(passed) };
        return Argument { words, what };
    }
    let mut words = vec![word];
    if SEPARATE.contains(&text.as_str()) || JOINED.contains(&text.as_str()) {
        words.extend(rest.next());
    }
    Argument { words, what: What::Option }
}

/// The words and the value of an option that is spelled `-o value`, `-ovalue`, `--output value` or
/// `--output=value`; nothing if `word` is not that option.
fn value(
    word: &OsStr,
    short: &str,
    long: &str,
    rest: &mut impl Iterator<Item = OsString>,
) -> Option<(Vec<OsString>, OsString)> {
    let bytes = word.as_bytes();
    let joined = if let Some(after) = bytes.strip_prefix(short.as_bytes()) {
        after
    } else if let Some(after) = bytes.strip_prefix(long.as_bytes()).filter(|_| !long.is_empty()) {
        match after.strip_prefix(b"=") {
            Some(value) => value,
            None if after.is_empty() => after,
            None => return None,
        }
    } else {
        return None;
    };
    if !joined.is_empty() {
        return Some((vec![word.to_owned()], OsString::from_vec(joined.to_vec())));
    }
    let next = rest.next()?;
    Some((vec![word.to_owned(), next.clone()], next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Arguments {
        Arguments::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn values_stay_with_their_options() {
        let arguments = parse("-I inc -include x.h -D A.c=1 -MF a.d -c a.c -oa.o");
        assert_eq!(arguments.task(), Task::Compile);
        let sources: Vec<_> = arguments.sources().collect();
        assert_eq!(sources, [(Path::new("a.c"), None)]);
        assert_eq!(arguments.output(), Some(Path::new("a.o")));
    }

    #[test]
    fn a_language_holds_until_the_next_one() {
        let arguments = parse("-x c++ a - -x none b.o c.cc -L lib -lm -l:libz.a -o out");
        let sources: Vec<_> = arguments.sources().collect();
        let wanted = [(Path::new("a"), Some("c++")), ("-".as_ref(), Some("c++"))];
        assert_eq!(sources[..2], wanted);
        assert_eq!(sources[2], (Path::new("c.cc"), None));
        let libraries: Vec<_> =
            arguments.all.iter().filter(|one| matches!(one.what, What::Library(_))).collect();
        assert_eq!(libraries.len(), 2);
        assert_eq!(arguments.library_folders().next(), Some(Path::new("lib")));
    }

    #[test]
    fn what_leaves_no_code_is_left_to_the_compiler() {
        for line in ["--version", "-v", "-E a.c", "-MM a.c", "-S a.c", "-print-search-dirs a.c"] {
            assert_eq!(parse(line).task(), Task::Other, "{line}");
        }
        assert_eq!(parse("-x c-header a.h").task(), Task::Other);
        assert_eq!(parse("a.h -o a.h.gch").task(), Task::Other);
        assert_eq!(parse("-MD -MMD a.c").task(), Task::Link);
        assert_eq!(parse("-lmain").task(), Task::Link);
    }

    #[test]
    fn words_for_the_linker_are_taken_apart() {
        let arguments = parse("-Wl,-rpath,/x -Xlinker --as-needed a.o");
        let words: Vec<_> = arguments.linker_words().collect();
        assert_eq!(words, ["-rpath", "/x", "--as-needed"]);
    }
}
