//! Instructions by their place in the program's sources, as its debug information has it.

use seawall_explore::SourceLine;
use seawall_program::{Place, UnreadFlushes, UnseenStore};
use std::path::Path;
use std::process::Command;

/// In the paths of the library that stands for the C library ([`seawall_cc::SUPPORT_FOLDER`]).
const SUPPORT: &str = seawall_cc::SUPPORT_FOLDER;

/// In the paths of what is nobody's program: headers with intrinsic functions, of C and C++ and of
/// what is installed, Rust's library.
const OF_OTHERS: [&str; 5] =
    ["/lib/gcc/", "/include/c++/", "/usr/include/", "/usr/local/include/", "/rustc/"];

/// Addresses that one command is asked for.
const AT_ONCE: usize = 4096;

/// Each store with the function and line of the instruction that found it.
pub(super) fn name(image: &Path, stores: &[UnseenStore]) -> Vec<String> {
    let found: Vec<u64> = stores.iter().map(|store| store.found_at).collect();
    let name = |(store, line): (&UnseenStore, Line)| match store.found_at {
        0 => format!("{}, found at the end", store.place),
        _ => format!("{}, found by {line}", store.place),
    };
    stores.iter().zip(lines(image, &found)).map(name).collect()
}

/// How many flushes of what another thread has stored there are, and where the first one is.
pub(super) fn unread(image: &Path, found: &UnreadFlushes) -> String {
    let UnreadFlushes { count, first } = found;
    let times = if *count == 1 { "a flush".to_owned() } else { format!("{count} flushes") };
    match lines(image, &[*first]).first() {
        Some(line) => format!("{times} (the first by {line})"),
        None => times,
    }
}

/// Where threads are, as the end of a message: each in the program's own code.
pub(crate) fn threads(image: &Path, places: &[Place]) -> String {
    let mut text = String::new();
    for place in places {
        let lines = lines(image, &place.callers);
        let own = lines.iter().find(|line| !line.is_support()).or(lines.first());
        let Some(line) = own else { continue };
        text += &match (places, &place.does) {
            ([_], None) => format!(", at {line}"),
            (_, None) => format!("\n  thread {} at {line}", place.thread),
            (_, Some(does)) => format!("\n  thread {} at {line} {does}", place.thread),
        };
    }
    text
}

/// The line of each address in the image, and those that it is inlined in, without the folders of
/// their files; those of the support library keep theirs.
pub(crate) fn source_lines(image: &Path, addresses: &[u64]) -> Vec<SourceLine> {
    let source = |text: &str, callers| {
        let (file, number) = text.rsplit_once(':').unwrap_or((text, "0"));
        let file = match file.find(SUPPORT) {
            Some(at) => file[at..].to_owned(),
            None => file.rsplit('/').next().unwrap_or(file).to_owned(),
        };
        SourceLine { file, line: number.parse().unwrap_or(0), callers }
    };
    let chain = |line: Line| {
        let callers = line.callers.iter().map(|(_, line)| source(line, Vec::new()));
        source(&line.line, callers.collect())
    };
    lines(image, addresses).into_iter().map(chain).collect()
}

/// A function, and a line of a file.
pub(crate) struct Line {
    pub(super) function: String,
    /// The function that it is inlined in, or itself.
    pub(super) outermost: String,
    line: String,
    /// The functions in between, and that one, each with its line.
    callers: Vec<(String, String)>,
}

fn file_and_line(text: &str) -> (String, u32) {
    let (file, line) = text.rsplit_once(':').unwrap_or((text, "0"));
    (file.rsplit('/').next().unwrap_or(file).to_owned(), line.parse().unwrap_or(0))
}

impl Line {
    /// The file without its folders, and the line; 0 if it is not known.
    pub(super) fn file_and_line(&self) -> (String, u32) {
        file_and_line(&self.line)
    }

    /// It, and what it is inlined in: each function with its file and line.
    pub(super) fn chain(&self) -> impl Iterator<Item = (&str, (String, u32))> {
        let callers =
            self.callers.iter().map(|(function, line)| (&**function, file_and_line(line)));
        std::iter::once((&*self.function, self.file_and_line())).chain(callers)
    }

    /// The same, if the code was written in sources of the user.
    pub(crate) fn own_chain(&self) -> impl Iterator<Item = (&str, (String, u32))> {
        let is_own = !self.is_support() && !is_of_others(&self.line);
        self.chain().filter(move |_| is_own)
    }

    pub(super) fn is_support(&self) -> bool {
        self.line.contains(SUPPORT)
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.line.rsplit('/').next().unwrap_or(&self.line);
        write!(f, "{} ({file})", self.function)
    }
}

/// The line of each address in the image.
pub(crate) fn lines(image: &Path, addresses: &[u64]) -> Vec<Line> {
    addresses.chunks(AT_ONCE).flat_map(|some| few_lines(image, some)).collect()
}

/// Those of as many addresses as a command may have words.
fn few_lines(image: &Path, addresses: &[u64]) -> Vec<Line> {
    let name = |at: &u64| format!("{at:#x}");
    let text = |at: &u64| {
        let (function, callers) = (name(at), Vec::new());
        Line { outermost: function.clone(), function, line: "??:0".into(), callers }
    };
    let plain = || addresses.iter().map(text).collect();
    let mut command = Command::new("addr2line");
    command.args(["-a", "-f", "-i", "-C", "-e"]).arg(image);
    // A call returns behind the access that it was made for.
    command.args(addresses.iter().map(|at| format!("{:#x}", at.saturating_sub(1))));
    let Ok(output) = command.output() else { return plain() };
    let text = String::from_utf8_lossy(&output.stdout);
    let text: Vec<&str> = text.lines().collect();
    let is_address = |line: &&str| line.starts_with("0x");
    let found: Vec<Line> = text.split(is_address).skip(1).filter_map(innermost).collect();
    if found.len() == addresses.len() { found } else { plain() }
}

fn is_of_others(line: &str) -> bool {
    OF_OTHERS.iter().any(|path| line.contains(path))
}

/// Where the code of an instruction was written, of the functions that it is inlined in, each with
/// its line: the first that is not others', and who has called that.
fn innermost(functions: &[&str]) -> Option<Line> {
    let is_own = |pair: &&[&str]| !is_of_others(pair[1]);
    let place = |pair: &[&str]| {
        let line = pair[1].split(" (").next().unwrap_or(pair[1]);
        (pair[0].to_owned(), line.to_owned())
    };
    let pairs = || functions.chunks_exact(2);
    let mut own = pairs().filter(is_own).map(place);
    let (function, line) = own.next().or_else(|| pairs().next().map(place))?;
    let outermost = pairs().last()?[0].to_owned();
    Some(Line { function, outermost, line, callers: own.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compilers_come_with_is_named_by_the_function_that_it_is_inlined_in() {
        let own = ["push", "/home/me/stack.rs:7", "main", "/home/me/stack.rs:20"];
        for path in [
            "/rustc/5980/library/core/src/sync/atomic.rs:3876",
            "/usr/lib/gcc/x.h:3",
            "/usr/include/c++/12/bits/atomic_base.h:962",
            "/usr/lib/llvm-14/bin/../include/c++/v1/atomic:1024",
            "/usr/include/x86_64-linux-gnu/bits/string_fortified.h:29",
        ] {
            let line = innermost(&[&["store", path][..], &own].concat()).unwrap();
            assert_eq!(
                (line.to_string().as_str(), line.outermost.as_str()),
                ("push (stack.rs:7)", "main")
            );
            assert_eq!(line.callers, [("main".into(), "/home/me/stack.rs:20".into())]);
        }
        let alone = innermost(&["store", "/rustc/5980/library/core/src/ptr/mod.rs:5"]).unwrap();
        assert_eq!(alone.to_string(), "store (mod.rs:5)");
    }
}
