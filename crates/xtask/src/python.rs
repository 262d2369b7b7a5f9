//! Builds the Python package into an environment of its own, checks its types, and runs its tests.
//!
//! Needs a Python with `venv`, and once the packages of `crates/python/requirements.txt`; with
//! `--more` also those of `requirements-more.txt`, by which the notebooks and the examples run.
//! Cargo builds the module, and it is put where `maturin develop` would put it. What the package
//! finds is compared with what the command `seawall` of the same sources prints.
//!
//! After `cargo test --workspace`, `--as-tested` takes what that has compiled. Otherwise cargo
//! compiles nearly all crates again: without the features that only tests ask for, they are others.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest Python that the tools of the tests run on; the package itself runs on 3.9.
const MINOR_MIN: u32 = 10;

/// Where everything is.
pub(crate) struct Places {
    package: PathBuf,
    pub(crate) target: PathBuf,
    /// The environment.
    venv: PathBuf,
}

impl Places {
    pub(crate) fn find() -> Result<Places> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
        let venv = target.join("python");
        Ok(Places { package: root.join("crates/python"), target, venv })
    }

    /// A program of the environment, run where the package is.
    pub(crate) fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.venv.join("bin").join(name));
        command.current_dir(&self.package);
        command.env("VIRTUAL_ENV", &self.venv).env("CARGO_TARGET_DIR", &self.target);
        command.env("SEAWALL_COMMAND", self.target.join("debug/seawall"));
        command
    }
}

/// What cargo builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// The module and the command.
    Alone,
    /// As `cargo test --workspace` does.
    AsTested,
}

impl Build {
    fn words(self) -> &'static [&'static str] {
        match self {
            Build::Alone => &["-p", "seawall-cli", "-p", "seawall-python"],
            Build::AsTested => &["--workspace", "--lib", "--bins", "--tests"],
        }
    }
}

/// Builds and tests the package; pytest gets `words` too. True if all holds.
pub(crate) fn run(build: Build, more: bool, words: &[&str]) -> Result<bool> {
    let places = Places::find()?;
    environment(&places, more)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&places.package).args(["build", "--locked"]).args(build.words());
    done(&mut cargo)?;
    install(&places)?;
    let is_typed = is_done(&mut places.tool("mypy"))?;
    Ok(is_done(places.tool("pytest").args(words))? && is_typed)
}

/// Puts the module into the package, and the package into the environment, from where it is.
fn install(places: &Places) -> Result<()> {
    let built = places.target.join("debug/lib_seawall.so");
    let sources = places.package.join("python");
    let module = sources.join("seawall/_seawall.abi3.so");
    // A process that has the old one open keeps it.
    let part = sources.join("seawall/_seawall.part.so");
    fs::copy(&built, &part).with_context(|| built.display().to_string())?;
    fs::rename(&part, &module).with_context(|| module.display().to_string())?;
    let mut ask = places.tool("python");
    ask.args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]);
    let said = ask.output().with_context(|| shown(&ask))?;
    let packages = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    let list = packages.join("seawall.pth");
    fs::write(&list, format!("{}\n", sources.display())).with_context(|| list.display().to_string())
}

/// Makes the environment alone, which is what needs a network.
pub(crate) fn prepare() -> Result<()> {
    environment(&Places::find()?, false)
}

/// Makes the environment, unless it is there with what is required.
pub(crate) fn environment(places: &Places, more: bool) -> Result<()> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let version = version_of(&python)?;
    let mark = places.venv.join("installed.txt");
    let installed = fs::read_to_string(&mark).unwrap_or_default();
    let files = ["requirements.txt", "requirements-more.txt"].map(|name| places.package.join(name));
    let texts = files.each_ref().map(fs::read_to_string);
    let [basic, others] = texts.map(|text| text.context("cannot read the requirements"));
    let (basic, others) = (format!("{version}\n{}", basic?), others?);
    let has_basic = installed.starts_with(&basic);
    if has_basic && (!more || installed.ends_with(&others)) {
        return Ok(());
    }
    if !has_basic {
        done(Command::new(&python).args(["-m", "venv", "--clear"]).arg(&places.venv))?;
    }
    let mut install = places.tool("python");
    install.args(["-m", "pip", "install", "--quiet"]);
    for file in files.iter().take(if more { 2 } else { 1 }) {
        install.arg("-r").arg(file);
    }
    done(&mut install)?;
    let now = if more { basic + &others } else { basic };
    fs::write(&mark, now).with_context(|| mark.display().to_string())
}

/// The version of Python, if the tools of the tests run on it.
fn version_of(python: &str) -> Result<String> {
    let remedy = "give one of at least that version by PYTHON=";
    let output = Command::new(python).arg("--version").output();
    let output = output.with_context(|| format!("cannot run {python}; {remedy}"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let Some(minor) = minor_of(&text) else { bail!("{python} says '{text}'; {remedy}") };
    if minor < MINOR_MIN {
        bail!("{python} is {text}, and the tests need 3.{MINOR_MIN}; {remedy}");
    }
    Ok(text)
}

fn minor_of(version: &str) -> Option<u32> {
    version.strip_prefix("Python 3.")?.split('.').next()?.parse().ok()
}

fn is_done(command: &mut Command) -> Result<bool> {
    println!("== {}", shown(command));
    Ok(command.status().with_context(|| format!("cannot run {}", shown(command)))?.success())
}

pub(crate) fn done(command: &mut Command) -> Result<()> {
    match is_done(command)? {
        true => Ok(()),
        false => bail!("{} failed; its messages are above", shown(command)),
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_python_is_told_from_a_new_one() {
        assert_eq!(minor_of("Python 3.9.18"), Some(9));
        assert_eq!(minor_of("Python 3.15.0rc1"), Some(15));
        assert_eq!(minor_of("Python 2.7.18"), None);
        let said = version_of("no-such-python").unwrap_err().to_string();
        assert!(said.contains("no-such-python") && said.contains("PYTHON="), "{said}");
    }
}
