//! The driver as a command for the tests. The first argument says the language, `cc` or `c++`,
//! unless the command is a link named `seawall-cc` or `seawall-c++`; `extract PROGRAM FOLDER`
//! writes the image of a program.
//!
//! `SEAWALL_TEST_INSTRUMENT=refuse` refuses assembly that defines `refused`,
//! `SEAWALL_TEST_INSTRUMENT=same` leaves the code as it is. Otherwise it is instrumented.

use seawall_cc::{Instrument, Language};
use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

fn same(text: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    Ok(text.to_owned())
}

fn asm(text: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    Ok(seawall_cc::asm::instrument(text)?)
}

fn refuse(text: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    match text.contains("\nrefused:") {
        true => Err("an instruction that is refused".into()),
        false => same(text),
    }
}

fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let command = arguments.next().unwrap_or_default();
    let instrument: Instrument = match env::var("SEAWALL_TEST_INSTRUMENT").as_deref() {
        Ok("refuse") => refuse,
        Ok("same") => same,
        _ => asm,
    };
    if let Some(language) = Language::of_command(&command) {
        return seawall_cc::run(language, arguments, instrument);
    }
    match arguments.next().as_deref().and_then(OsStr::to_str) {
        Some("cc") => seawall_cc::run(Language::C, arguments, instrument),
        Some("c++") => seawall_cc::run(Language::Cxx, arguments, instrument),
        Some("extract") => {
            let words: Vec<_> = arguments.collect();
            extract(words[0].as_ref(), words[1].as_ref())
        }
        _ => panic!("cc, c++ or extract"),
    }
}

fn extract(program: &Path, folder: &Path) -> ExitCode {
    match seawall_cc::embedded(program) {
        Ok(embedded) => {
            let image = embedded.write(folder).expect("the folder can be written to");
            println!("{}", image.display());
            for name in embedded.opaque {
                println!("opaque {name}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
