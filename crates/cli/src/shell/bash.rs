//! Completions for Bash, which parts words at `=` and `:`. Values of seawall have both, so it gets
//! the line as it was typed, and finds the words itself.

use clap::Command;
use clap_complete::engine;
use clap_complete::env::EnvCompleter;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

/// The shell that asks.
pub(super) struct Bash;

const SCRIPT: &str = r#"_NAME() {
    local IFS=$'\n'
    COMPREPLY=( $(VARIABLE=bash COMPLETER -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS") )
    # More follows what ends so.
    [[ "${COMPREPLY[0]-}" == *[=/] ]] && compopt -o nospace 2> /dev/null
    return 0
}
complete -o bashdefault -o default -F _NAME BIN
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        bin: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let names =
            [("NAME", name), ("VARIABLE", variable), ("COMPLETER", completer), ("BIN", bin)];
        let script =
            names.iter().fold(SCRIPT.to_owned(), |text, (hole, is)| text.replace(hole, is));
        out.write_all(script.as_bytes())
    }

    /// `asked` is the line up to the cursor, and where Bash parts words.
    fn write_complete(
        &self,
        command: &mut Command,
        asked: Vec<OsString>,
        folder: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let asked: Vec<_> = asked.iter().map(|text| text.to_string_lossy()).collect();
        let [line, breaks] = &asked[..] else { return Ok(()) };
        let words: Vec<&str> = words(line);
        let kept = parted(words.last().copied().unwrap_or_default(), breaks);
        let (words, last) = (words.iter().map(OsString::from).collect(), words.len() - 1);
        for candidate in engine::complete(command, words, last, folder)? {
            let text = candidate.get_value().to_string_lossy();
            writeln!(out, "{}", text.get(kept..).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// The words of a line; the last is empty if the line ends with a space.
fn words(line: &str) -> Vec<&str> {
    let last = if line.ends_with(char::is_whitespace) || line.is_empty() { Some("") } else { None };
    line.split_whitespace().chain(last).collect()
}

/// Bytes of the word being typed that Bash takes for words of their own, and keeps.
fn parted(word: &str, breaks: &str) -> usize {
    let is_break = |character| matches!(character, '=' | ':') && breaks.contains(character);
    word.rfind(is_break).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::completed;

    fn replies(line: &str) -> Vec<String> {
        let mut out = Vec::new();
        let asked = vec![line.into(), " \t=:".into()];
        Bash.write_complete(&mut completed(), asked, None, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn names_are_completed_behind_commas_colons_and_equals_signs() {
        assert_eq!(replies("seawall compare -w que"), ["queue"]);
        assert_eq!(replies("seawall compare -w queue,sp"), ["queue,sps"]);
        assert_eq!(replies("seawall compare --workloads=que"), ["queue"]);
        assert_eq!(replies("seawall compare --workloads=queue,sp"), ["queue,sps"]);
        assert_eq!(replies("seawall compare -d lb,lbpp:ep"), ["epochs="]);
        assert_eq!(replies("seawall compare -d lbpp:epochs=4:reg"), ["registers="]);
        assert!(!replies("seawall compare -d lbpp:epochs=4:").contains(&"epochs=".into()));
        assert_eq!(replies("seawall compare -m desktop:llc.bank"), ["llc.banks="]);
        assert!(replies("seawall compare -d ").contains(&"lbpp".into()));
    }

    #[test]
    fn every_argument_that_names_something_is_completed() {
        for (line, name) in [
            ("seawall expl", "explore"),
            ("seawall compare --cra", "--crashes"),
            ("seawall compare --defragment sfccd-", "sfccd-published"),
            ("seawall compare --baseline lb", "lbpp"),
            ("seawall run has", "hash"),
            ("seawall run hash --mix ycsb-", "ycsb-a"),
            ("seawall explore pm-1", "pm-11"),
            ("seawall explore fast-", "fast-fair"),
            ("seawall explore hash --model bs", "bsp"),
            ("seawall corpus pm-1", "pm-14"),
            ("seawall litmus A0", "A01"),
            ("seawall litmus x", "x86"),
            ("seawall whisper ct", "ctree"),
            ("seawall reproduce micro15-fig1", "micro15-fig11"),
            ("seawall sweep bsp-", "bsp-sweep-quick"),
            ("seawall kernels rad", "radix"),
            ("seawall show design lbp", "lbpp"),
            ("seawall show machine desk", "desktop"),
            ("seawall list exp", "experiments"),
        ] {
            assert!(replies(line).contains(&name.into()), "{line}: {:?}", replies(line));
        }
    }
}
