//! A folder with the names of the driver as commands, in which a test builds things.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A folder of one test.
pub(crate) struct Place {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// True if there is such a command; says so if not.
pub(crate) fn have(command: &str) -> bool {
    let found = Command::new(command)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: {command} is not installed");
    }
    found
}

impl Place {
    /// A new folder; nothing if there is no compiler.
    pub(crate) fn new() -> Option<Self> {
        if !have("gcc") || !have("g++") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let command = env!("CARGO_BIN_EXE_seawall-cc-harness");
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in ["seawall-cc", "seawall-c++", "seawallcc", "seawallc++"] {
            symlink(command, bin.join(name)).unwrap();
        }
        // One cache for all tests of this build, and none of the user's.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let variables =
            vec![("PATH".into(), path), ("XDG_CACHE_HOME".into(), cache.display().to_string())];
        Some(Place { folder, variables })
    }

    /// The same, with a variable of the environment.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// What a line for the shell does.
    pub(crate) fn try_run(&self, line: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.folder.path()).env("LC_ALL", "C");
        command.env_remove("MAKEFLAGS").envs(self.variables.iter().cloned());
        command.output().unwrap()
    }

    /// What it prints; it must succeed and print no error.
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.try_run(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {}\n{error}", output.status);
        assert!(error.is_empty(), "{line}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Extracts the image of a program: its path, and what is opaque in it.
    pub(crate) fn extract(&self, program: &str) -> (String, Vec<String>) {
        let folder = self.path(&format!("image-{}", program.replace('/', "-")));
        fs::create_dir_all(&folder).unwrap();
        let extract = env!("CARGO_BIN_EXE_seawall-cc-harness");
        let said = self.run(&format!("{extract} extract {program} {}", folder.display()));
        let mut lines = said.lines().map(|line| line.trim_start_matches("opaque ").to_owned());
        (lines.next().unwrap(), lines.collect())
    }

    /// Runs the image of a program: what it prints, and what is opaque in it.
    pub(crate) fn run_image(&self, program: &str) -> (String, Vec<String>) {
        let (image, opaque) = self.extract(program);
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        if !self.path("host").is_file() {
            let support = tests.join("support").display().to_string();
            let host = tests.join("tests/driver/host.c").display().to_string();
            // Without -fPIC it would have a copy of `environ`, and the image see another one.
            self.run(&format!("gcc -O1 -fPIC -I{support} {host} -o host -ldl"));
        }
        (self.run(&format!("./host {image}")), opaque)
    }

    /// What is told of a program that has no image.
    pub(crate) fn refusal(&self, program: &str) -> String {
        let extract = env!("CARGO_BIN_EXE_seawall-cc-harness");
        let output = self.try_run(&format!("{extract} extract {program} ."));
        assert_eq!(output.status.code(), Some(2), "{program} has an image");
        String::from_utf8(output.stderr).unwrap()
    }
}
