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
    local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT}
    COMPREPLY=( $(VARIABLE=bash "$1" -- "$line" "$COMP_WORDBREAKS" 2> /dev/null) )
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
        let (words, is_quoted) = words(line);
        let last = words.len() - 1;
        let kept = if is_quoted { 0 } else { parted(&words[last], breaks) };
        let words = words.into_iter().map(OsString::from).collect();
        for candidate in engine::complete(command, words, last, folder)? {
            let text = candidate.get_value().to_string_lossy();
            let text = text.get(kept..).unwrap_or_default();
            writeln!(out, "{}", if is_quoted { text.to_owned() } else { escaped(text) })?;
        }
        Ok(())
    }
}

/// The words of a line without their quotes, the last of which is being typed, and whether a quote
/// is open in it: Bash parts no word there.
fn words(line: &str) -> (Vec<String>, bool) {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let (mut is_word, mut letters) = (false, line.chars());
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None | Some('"'), '\\') => word.extend(letters.next()),
            (None, letter) if letter.is_whitespace() => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
                continue;
            }
            (_, letter) => word.push(letter),
        }
        is_word = true;
    }
    words.push(word);
    (words, quote.is_some())
}

/// Bytes of the word being typed that Bash takes for words of their own, and keeps.
fn parted(word: &str, breaks: &str) -> usize {
    let is_break = |character| matches!(character, '=' | ':') && breaks.contains(character);
    word.rfind(is_break).map_or(0, |at| at + 1)
}

/// As it is typed without quotes.
fn escaped(text: &str) -> String {
    let mut typed = String::new();
    for letter in text.chars() {
        if letter.is_whitespace() || "'\"\\()&;$`*?<>|#![]{}".contains(letter) {
            typed.push('\\');
        }
        typed.push(letter);
    }
    typed
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
    fn a_word_in_quotes_is_one_and_what_needs_a_backslash_gets_one() {
        assert_eq!(replies("seawall compare -d 'clwb,lbpp:ep"), ["clwb,lbpp:epochs="]);
        assert_eq!(replies("seawall compare --designs \"lbpp:epochs=4,ho"), ["lbpp:epochs=4,hops"]);
        assert_eq!(replies("seawall compare -w 'queue' -d 'lbpp' -m desk"), ["desktop"]);
        assert_eq!(
            words("a 'b c' d\\ e \"f"),
            (["a", "b c", "d e", "f"].map(str::to_owned).into(), true)
        );
        assert_eq!(words("a ").0, ["a", ""]);
        assert_eq!(escaped("my file's"), "my\\ file\\'s");
        assert_eq!(escaped("lbpp:epochs="), "lbpp:epochs=");
    }

    #[test]
    fn every_argument_that_names_something_is_completed() {
        for (line, name) in [
            ("seawall expl", "explore"),
            ("seawall compare --cra", "--crashes"),
            ("seawall compare --defragment sfccd-", "sfccd-published"),
            ("seawall compare --cost l", "lean"),
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
