//! Makes what the Python package is distributed as: `cargo run -p seawall-xtask -- wheel DIR`.
//!
//! `DIR` gets the source distribution, and a wheel that is built from it, for Python 3.9 and all
//! later ones (abi3). The wheel is installed where nothing else is, and has to run an experiment
//! there. With `--source` the wheel is left out, and the source distribution is installed so, by
//! pip and Rust. With `--target T` the wheel is for that target of rustc; one for another processor
//! than this is linked by the usual cross compiler of Debian, and not tried.

use crate::python::{Places, done, environment};
use anyhow::{Context, Result, bail};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the package must be able to do where nothing else is installed.
const TRIAL: &str = "
import seawall
table = seawall.compare(
    machine='desktop', workloads=['hash'], designs=['lb', 'lbpp'], ops=40, entries=64, crashes=2
)
print(table)
assert [record['design'] for record in table] == ['lb', 'lbpp'], table
assert all(record['crashes'] == 2 and record['broken'] == 0 for record in table), table
print('seawall', seawall.__version__, 'from', seawall.__file__)
";

/// What to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made<'a> {
    /// The source distribution and a wheel for this machine.
    Wheel,
    /// The source distribution alone.
    Source,
    /// A wheel for a target.
    For(&'a str),
}

impl<'a> Made<'a> {
    fn of(options: &[&'a str]) -> Option<Made<'a>> {
        match *options {
            [] => Some(Made::Wheel),
            ["--source"] => Some(Made::Source),
            ["--target", target] => Some(Made::For(target)),
            _ => None,
        }
    }
}

/// The variable that names cargo's linker for a target, and the linker of Debian's cross compiler.
fn linker_for(target: &str) -> (String, String) {
    let name = target.to_uppercase().replace('-', "_");
    let system = target.replace("-unknown-", "-");
    (format!("CARGO_TARGET_{name}_LINKER"), format!("{system}-gcc"))
}

/// Makes in `folder` what `options` ask for; false if it is not known what that is.
pub(crate) fn run(folder: &str, options: &[&str]) -> Result<bool> {
    let Some(made) = Made::of(options) else { return Ok(false) };
    let places = Places::find()?;
    environment(&places, false)?;
    fs::create_dir_all(folder).with_context(|| folder.to_owned())?;
    let folder = Path::new(folder).canonicalize()?;
    let mut maturin = places.tool("maturin");
    maturin.env("CARGO_TARGET_DIR", emptied(&places.target.join("wheel"))?);
    match made {
        Made::Source => maturin.arg("sdist"),
        Made::Wheel => maturin.args(["build", "--release", "--sdist"]),
        Made::For(target) => {
            let (variable, linker) = linker_for(target);
            let is_chosen = target.starts_with(ARCH) || std::env::var_os(&variable).is_some();
            if !is_chosen {
                maturin.env(variable, linker);
            }
            maturin.args(["build", "--release", "--target", target])
        }
    };
    // Not `--locked`: the source distribution has not all crates of the lock file, so that cargo
    // removes some from it. The versions of the others stay.
    done(maturin.arg("--out").arg(&folder))?;
    match made {
        Made::Source => try_alone(&places, &newest(&folder, ".tar.gz")?)?,
        Made::Wheel => try_alone(&places, &newest(&folder, ".whl")?)?,
        Made::For(target) if target.starts_with(ARCH) => {
            try_alone(&places, &newest(&folder, ".whl")?)?;
        }
        Made::For(_) => println!("== not tried: it is for another processor than this one"),
    }
    Ok(true)
}

/// A folder for what cargo compiles, without what it has compiled before. All files of a source
/// distribution have the same date, so that cargo would take crates of an earlier one for new.
fn emptied(folder: &Path) -> Result<&Path> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(folder)
}

/// The package in `folder` that was made last.
fn newest(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("seawall-") && name.ends_with(ending) {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    let Some((_, path)) = found.into_iter().max() else {
        bail!("maturin made no seawall-*{ending} in {}", folder.display());
    };
    Ok(path)
}

/// Installs `package` in a new environment, and runs the trial there.
fn try_alone(places: &Places, package: &Path) -> Result<()> {
    let venv = places.target.join("wheel-trial");
    done(places.tool("python").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let python = venv.join("bin/python");
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--no-deps"]).arg(package);
    done(&mut install)?;
    // Elsewhere, so that the sources are not what is imported.
    let mut trial = Command::new(&python);
    done(trial.current_dir(&venv).args(["-c", TRIAL]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_follows_from_the_options() {
        assert_eq!(Made::of(&[]), Some(Made::Wheel));
        assert_eq!(Made::of(&["--source"]), Some(Made::Source));
        assert_eq!(Made::of(&["--target", "x"]), Some(Made::For("x")));
        for wrong in [&["--wheel"][..], &["x"], &["--source", "x"], &["--target"]] {
            assert_eq!(Made::of(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn nothing_that_was_compiled_before_is_left() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("wheel");
        assert!(emptied(&folder).is_ok(), "there was none");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("old.rlib"), "").unwrap();
        assert!(!emptied(&folder).unwrap().join("old.rlib").exists());
    }

    #[test]
    fn another_target_is_linked_by_its_cross_compiler() {
        let (variable, linker) = linker_for("aarch64-unknown-linux-gnu");
        assert_eq!(variable, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER");
        assert_eq!(linker, "aarch64-linux-gnu-gcc");
    }

    #[test]
    fn the_package_that_was_made_last_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            newest(folder.path(), ".whl")
                .unwrap_err()
                .to_string()
                .contains("made no seawall-*.whl")
        );
        for (age, name) in ["seawall-2.whl", "seawall-1.whl", "seawall-3.tar.gz"].iter().enumerate()
        {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 + age as u64);
            fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        assert!(newest(folder.path(), ".whl").unwrap().ends_with("seawall-1.whl"));
    }
}
