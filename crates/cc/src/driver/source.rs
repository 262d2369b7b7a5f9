//! The instrumented object of a source: compiled to assembly, instrumented, and assembled.

use super::arguments::Arguments;
use super::compiler::{self, Compiler};
use super::error::CcError;
use super::{Instrument, flags};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// Compiles sources a second time, all with the same options.
pub(super) struct Second<'a> {
    pub(super) compiler: &'a Compiler,
    pub(super) arguments: &'a Arguments,
    pub(super) instrument: Instrument,
    /// What `-` stands for.
    pub(super) input: Option<&'a Path>,
}

/// How the text of a source becomes assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Compiled,
    /// Assembly with directives of the preprocessor.
    Preprocessed,
    Assembly,
}

impl Second<'_> {
    /// Makes the object in this folder, which holds nothing else. The error names the source.
    pub(super) fn object(
        &self,
        source: &Path,
        language: Option<&str>,
        folder: &Path,
    ) -> Result<PathBuf, CcError> {
        let failed = |why: String| CcError::Twin(format!("{}: {why}", source.display()));
        if let Some(refusal) = flags::refusal(self.arguments) {
            return Err(failed(refusal));
        }
        let text = self.assembly(source, language, folder).map_err(|error| match error {
            CcError::Twin(why) => failed(why),
            other => other,
        })?;
        let text = (self.instrument)(&text).map_err(|error| failed(error.to_string()))?;
        let assembly = folder.join("instrumented.s");
        let object = folder.join("instrumented.o");
        fs::write(&assembly, show_main(&text)).map_err(CcError::file(&assembly))?;
        let mut words = flags::assemble(self.arguments);
        words.extend(["-c", "-x", "assembler"].map(OsString::from));
        words.extend([assembly.into(), "-o".into(), object.clone().into()]);
        let output = self.compiler.quietly(words)?;
        match output.status.success() {
            true => Ok(object),
            false => Err(failed(format!(
                "the instrumented assembly is not understood, which is an error of seawall: {}",
                compiler::reason(&output)
            ))),
        }
    }

    fn assembly(
        &self,
        source: &Path,
        language: Option<&str>,
        folder: &Path,
    ) -> Result<String, CcError> {
        let kind = kind_of(source, language);
        let mut words = Vec::new();
        let made = match kind {
            Kind::Assembly => match (source == Path::new("-"), self.input) {
                (true, Some(input)) => input.to_owned(),
                _ => source.to_owned(),
            },
            _ => {
                let made = folder.join("plain.s");
                words.extend(flags::compile(self.arguments, self.compiler.brand()?));
                words.push(if kind == Kind::Compiled { "-S" } else { "-E" }.into());
                words.extend(["-o".into(), made.clone().into_os_string()]);
                if let Some(language) = language {
                    words.extend(["-x".into(), language.into()]);
                }
                words.push(source.into());
                let output = self.compiler.quietly_with(words, self.input)?;
                if !output.status.success() {
                    let why = compiler::reason(&output);
                    return Err(CcError::Twin(format!(
                        "it does not compile as position-independent code: {why}"
                    )));
                }
                made
            }
        };
        let bytes = fs::read(&made).map_err(CcError::file(&made))?;
        String::from_utf8(bytes).map_err(|_| CcError::Twin("its assembly is not UTF-8".into()))
    }
}

fn kind_of(source: &Path, language: Option<&str>) -> Kind {
    match (language, source.extension().and_then(OsStr::to_str)) {
        (Some("assembler"), _) | (None, Some("s")) => Kind::Assembly,
        (Some("assembler-with-cpp"), _) | (None, Some("S" | "sx")) => Kind::Preprocessed,
        _ => Kind::Compiled,
    }
}

/// Who runs an image looks for its `main`, which `-fvisibility=hidden` hides in programs.
fn show_main(text: &str) -> String {
    text.replace("\t.hidden\tmain\n", "").replace("\t.internal\tmain\n", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembly_is_told_from_what_is_compiled() {
        assert_eq!(kind_of("a.s".as_ref(), None), Kind::Assembly);
        assert_eq!(kind_of("a.S".as_ref(), None), Kind::Preprocessed);
        assert_eq!(kind_of("a.S".as_ref(), Some("c")), Kind::Compiled);
        assert_eq!(kind_of("-".as_ref(), Some("assembler-with-cpp")), Kind::Preprocessed);
    }

    #[test]
    fn main_is_never_hidden() {
        assert_eq!(show_main("a\n\t.hidden\tmain\n\t.hidden\tmain2\n"), "a\n\t.hidden\tmain2\n");
    }
}
