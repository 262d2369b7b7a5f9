//! The files of a command: no output takes the place of what the command reads, makes, or writes
//! besides, whatever it is called.
//!
//! Files that exist are told apart by device and number, so that links of both kinds are seen
//! through; files that do not exist yet by the folder that they will be in, and their name there.
//! Devices and pipes hold nothing that could be lost. Two files that are only read may be one.

use super::streams::Stream;
use super::{Finished, check_fillable, check_writable, end_of_links, with_ending};
use crate::ReportError;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the results of a command that was stopped go to: the name of the file with this behind it.
const PARTIAL: &str = ".partial";
/// In longer descriptions no machines are looked for.
const SEARCHED_BYTES_MAX: u64 = 16 << 20;
/// The endings of what is written into folders.
const ENDINGS: [&str; 2] = ["svg", "md"];

/// A file that a command writes, which is none that it reads, makes, or writes besides; or a folder
/// that it writes such files into.
#[derive(Clone, Debug)]
pub struct Output {
    path: PathBuf,
    partial: PathBuf,
}

impl Output {
    fn new(path: PathBuf, has_partial: bool) -> Output {
        // A pipe, a device and what is open have no file beside them that would be theirs.
        let is_plain = fs::metadata(&path).map_or(true, |it| it.is_file() || it.is_dir());
        let is_plain = is_plain && Stream::of(&path).is_none();
        let path: PathBuf = path.components().collect();
        let has_partial = has_partial && is_plain;
        let partial = if has_partial { with_ending(&path, PARTIAL) } else { path.clone() };
        Output { path, partial }
    }

    /// The file or folder, and what is beside it if the command is stopped.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.path, &self.partial]
            .into_iter()
            .take(1 + usize::from(self.has_partial()))
            .map(|it| &**it)
    }

    fn has_partial(&self) -> bool {
        self.path != self.partial
    }

    /// Removes what an earlier command left that was stopped.
    fn remove_partial(&self) {
        if !self.has_partial() {
            return;
        }
        for entry in fs::read_dir(&self.partial).into_iter().flatten().flatten() {
            if is_of_folder(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
        // A folder goes only if nothing else is in it.
        let _ = fs::remove_file(&self.partial).or_else(|_| fs::remove_dir(&self.partial));
    }

    /// The file or folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes results by `write`: all of them to the file, those of a command that was stopped to
    /// one beside it, and nothing where nothing was finished. Returns the message for a user who
    /// stopped the command.
    ///
    /// # Errors
    /// As `write`.
    pub fn put<E>(
        &self,
        finished: Finished,
        write: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let (path, partial) = (self.path.display(), self.partial.display());
        match finished {
            Finished::All => {
                write(&self.path)?;
                self.remove_partial();
                Ok(None)
            }
            Finished::Nothing => {
                Ok(Some(format!("stopped before anything was finished: {path} is as it was")))
            }
            Finished::Some => {
                write(&self.partial)?;
                let old = if self.has_partial() {
                    format!("; {path} is as it was")
                } else {
                    String::new()
                };
                Ok(Some(format!("stopped: what was finished is in {partial}{old}")))
            }
        }
    }
}

impl Form {
    /// True if its results are the files of a folder.
    fn is_folder(self) -> bool {
        matches!(self, Form::Plots | Form::Pages)
    }

    /// The option that says where it goes.
    fn option(self) -> &'static str {
        match self {
            Form::Json => "--json",
            Form::Csv => "--csv",
            Form::Latex => "--latex",
            Form::Plot => "--plot",
            Form::Html => "--html",
            Form::Plots => "--plots",
            Form::Pages => "--pages",
            Form::Folded => "--profile-folded",
            Form::Trace => "--trace",
        }
    }
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Read,
    Written,
    /// A folder into which plots are written.
    Filled,
}

/// Which file a path means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// One that there is: its device and number.
    There(u64, u64),
    /// One that will be: the device and number of its folder, and its name.
    New(u64, u64, OsString),
}

/// A file, and the option that names it.
#[derive(Clone, Debug)]
struct Claim {
    by: String,
    path: PathBuf,
    place: Place,
    used: Use,
}

/// A form of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON Lines.
    Json,
    /// Tables as comma-separated values.
    Csv,
    /// Tables for LaTeX.
    Latex,
    /// One plot.
    Plot,
    /// A page of HTML.
    Html,
    /// A folder of plots.
    Plots,
    /// A folder of pages in Markdown, with their pictures.
    Pages,
    /// Stacks, each with a number, a line each.
    Folded,
    /// A timeline in Perfetto's format.
    Trace,
}

/// The files of a command.
#[derive(Clone, Debug)]
pub struct Files {
    claims: Vec<Claim>,
    wanted: Vec<(Form, PathBuf)>,
    has_partial: bool,
}

impl Default for Files {
    fn default() -> Files {
        Files { claims: Vec::new(), wanted: Vec::new(), has_partial: true }
    }
}

impl Files {
    /// None yet.
    pub fn new() -> Files {
        Files::default()
    }

    /// None yet, of a command that ends at once when it is stopped, and writes nothing then.
    pub fn without_partial() -> Files {
        Files { has_partial: false, ..Files::default() }
    }

    /// Whether the command can be stopped early and write what is finished.
    pub fn has_partial(&self) -> bool {
        self.has_partial
    }

    /// Adds where results of that form go, if the user says so.
    #[must_use]
    pub fn results(mut self, form: Form, path: &Option<PathBuf>) -> Files {
        self.wanted.extend(path.iter().map(|path| (form, path.clone())));
        self
    }

    /// The files that results go to, each checked against all other files of the command.
    ///
    /// # Errors
    /// When two are the same, or one cannot be written.
    pub fn outputs(mut self) -> Result<Vec<(Form, Output)>, ReportError> {
        let wanted = std::mem::take(&mut self.wanted);
        let (folders, files): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|(form, _)| form.is_folder());
        let mut all = Vec::new();
        for (form, path) in folders {
            all.push((form, self.fills(form.option(), path)?));
        }
        let outputs: Vec<(Form, Output)> = files
            .into_iter()
            .map(|(form, path)| (form, Output::new(path, self.has_partial)))
            .collect();
        self.writes(&outputs)?;
        all.extend(outputs);
        Ok(all)
    }

    /// Adds a file that is read, if there is one of that name; `by` is who names it. The files of
    /// machines that are named in a description count too.
    #[must_use]
    pub fn reads(mut self, by: &str, path: impl AsRef<Path>) -> Files {
        let path = path.as_ref();
        self.claim(by, path, Use::Read);
        let is_short = |it: fs::Metadata| it.is_file() && it.len() <= SEARCHED_BYTES_MAX;
        let is_description = path.extension().is_some_and(|end| end == "toml")
            && fs::metadata(path).is_ok_and(is_short);
        let text = is_description.then(|| fs::read_to_string(path).ok()).flatten();
        let described = text.and_then(|text| text.parse::<toml::Table>().ok());
        let mut named = Vec::new();
        described.iter().for_each(|table| table.values().for_each(|it| names(it, &mut named)));
        for machine in named {
            self.claim(&format!("{by} ({})", path.display()), Path::new(&machine), Use::Read);
        }
        self
    }

    /// Adds a file that is made, or added to, while the command runs.
    #[must_use]
    pub fn makes(mut self, by: &str, path: Option<&Path>) -> Files {
        path.into_iter().for_each(|path| self.claim(by, path, Use::Written));
        self
    }

    /// Adds a folder that plots are written to.
    fn fills(&mut self, by: &str, folder: PathBuf) -> Result<Output, ReportError> {
        let folder = Output::new(folder, self.has_partial);
        for path in folder.paths() {
            check_fillable(path)?;
            self.claim(by, path, Use::Filled);
            let there = fs::read_dir(path).into_iter().flatten().flatten();
            let plots = there.map(|entry| entry.path()).filter(|path| is_of_folder(path));
            plots.for_each(|plot| self.claim(by, &plot, Use::Written));
        }
        Ok(folder)
    }

    /// Adds the files that results are written to. Refuses two that are the same, unless both are
    /// only read, one that cannot be written, and one that is there and no result.
    fn writes(&mut self, outputs: &[(Form, Output)]) -> Result<(), ReportError> {
        for (form, output) in outputs {
            let by = form.option();
            self.claim(by, &output.path, Use::Written);
            if output.has_partial() {
                let by = format!("{by} of a run that is stopped");
                self.claim(&by, &output.partial, Use::Written);
            }
        }
        self.check()?;
        for (form, output) in outputs {
            for path in output.paths() {
                check_replaceable(form.option(), path)?;
                check_writable(path)?;
            }
        }
        Ok(())
    }

    fn claim(&mut self, by: &str, path: &Path, used: Use) {
        let place = place_of(path);
        // A name that no file has means something else, or is refused when it is read.
        let is_meant = |place: &Place| used != Use::Read || matches!(place, Place::There(..));
        if let Some(place) = place.filter(is_meant) {
            self.claims.push(Claim { by: by.to_owned(), path: path.to_owned(), place, used });
        }
    }

    fn check(&self) -> Result<(), ReportError> {
        for (at, second) in self.claims.iter().enumerate() {
            let same = self.claims[..at].iter().find(|first| first.clashes_with(second));
            if let Some(first) = same {
                return Err(ReportError::SameFile {
                    first: first.by.clone(),
                    second: second.by.clone(),
                    path: second.path.display().to_string(),
                });
            }
        }
        Ok(())
    }
}

impl Claim {
    fn clashes_with(&self, other: &Claim) -> bool {
        let is_written = self.used != Use::Read || other.used != Use::Read;
        let is_in = |file: &Claim, folder: &Claim| match (&file.place, &folder.place) {
            (Place::New(device, number, name), Place::There(folder_device, folder_number)) => {
                let is_there = (device, number) == (folder_device, folder_number);
                folder.used == Use::Filled && is_of_folder(Path::new(name)) && is_there
            }
            _ => false,
        };
        let is_same = self.by != other.by && self.place == other.place;
        is_written && (is_same || is_in(self, other) || is_in(other, self))
    }
}

fn is_of_folder(path: &Path) -> bool {
    path.extension().is_some_and(|end| ENDINGS.iter().any(|known| end == *known))
}

/// Refuses to replace files that are no results, as far as they can be recognised.
fn check_replaceable(by: &str, path: &Path) -> Result<(), ReportError> {
    if Stream::of(path).is_some() || !fs::metadata(path).is_ok_and(|status| status.is_file()) {
        return Ok(());
    }
    let end = end_of_links(path).map_err(ReportError::file(path))?;
    let ends = |with: &str| [path, &end].iter().any(|it| it.extension().is_some_and(|e| e == with));
    let mut head = [0; 8];
    let is_read = File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok();
    let what = if is_read && seawall_runtime::pool::is_magic(head) {
        "a pool"
    } else if ends("litmus") {
        "a litmus test"
    } else if ends("toml") {
        "a description of a machine or an experiment"
    } else {
        return Ok(());
    };
    Err(ReportError::Precious { by: by.to_owned(), path: path.display().to_string(), what })
}

/// Every text in `value` that ends like the name of a description.
fn names(value: &toml::Value, found: &mut Vec<String>) {
    match value {
        toml::Value::String(text) if text.ends_with(".toml") => found.push(text.clone()),
        toml::Value::Array(all) => all.iter().for_each(|value| names(value, found)),
        toml::Value::Table(all) => all.values().for_each(|value| names(value, found)),
        _ => {}
    }
}

/// Which file `path` means; none for devices and pipes, and where no file can be.
fn place_of(path: &Path) -> Option<Place> {
    if let Ok(status) = fs::metadata(path) {
        let holds_something = status.is_file() || status.is_dir();
        return holds_something.then(|| Place::There(status.dev(), status.ino()));
    }
    let path = end_of_links(path).ok()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let status = fs::metadata(folder.unwrap_or(Path::new("."))).ok()?;
    Some(Place::New(status.dev(), status.ino(), path.file_name()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn clash(files: Files, output: PathBuf) -> Option<String> {
        files.results(Form::Json, &Some(output)).outputs().err().map(|error| error.to_string())
    }

    #[test]
    fn a_file_is_known_by_every_name_that_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.pool"), "precious").unwrap();
        fs::create_dir(at("sub")).unwrap();
        fs::hard_link(at("a.pool"), at("hard")).unwrap();
        symlink("a.pool", at("soft")).unwrap();
        symlink("new", at("ahead")).unwrap();
        let of_old = ["a.pool", "./a.pool", "sub/../a.pool", "hard", "soft"];
        for name in of_old {
            let said = clash(Files::new().reads("--recover", at("a.pool")), at(name));
            let said = said.unwrap_or_else(|| panic!("{name} is taken for another file"));
            assert!(said.contains("--recover and --json name the same file"), "{said}");
        }
        for name in ["new", "sub/../new", "ahead"] {
            let made = |file: &str| Files::new().makes("--file", Some(&at(file)));
            assert!(clash(made("new"), at(name)).is_some(), "{name} is taken for another file");
            assert!(clash(made(name), at("new")).is_some(), "{name} is taken for another file");
        }
        for name in ["other", "sub/new", "sub/a.pool"] {
            let files = Files::new().reads("--recover", at("a.pool"));
            assert_eq!(clash(files.makes("--file", Some(&at("new"))), at(name)), None);
        }
        assert_eq!(fs::read(at("a.pool")).unwrap(), b"precious");
    }

    #[test]
    fn what_a_stopped_run_leaves_takes_no_place_either() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let said = clash(Files::new().makes("--file", Some(&at("a.partial"))), at("a")).unwrap();
        assert!(said.contains("of a run that is stopped"), "{said}");
        let both = Files::new().results(Form::Json, &Some(at("a")));
        assert!(both.results(Form::Plot, &Some(at("a.partial"))).outputs().is_err());
    }

    #[test]
    fn a_command_that_gives_nothing_when_stopped_leaves_the_name_of_a_half_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let files = Files::without_partial().makes("--file", Some(&at("a.partial")));
        fs::write(at("a.partial"), "of somebody").unwrap();
        let outputs = files.results(Form::Json, &Some(at("a"))).outputs().unwrap();
        outputs[0].1.put(Finished::All, |path| fs::write(path, "x")).unwrap();
        assert_eq!(fs::read_to_string(at("a.partial")).unwrap(), "of somebody");
    }

    #[test]
    fn plots_that_a_stop_left_go_when_all_are_drawn_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (others, is_left) in [(&[][..], false), (&["notes.txt"], true)] {
            fs::create_dir(at("p.partial")).unwrap();
            for name in [&["a.svg"], others].concat() {
                fs::write(at("p.partial").join(name), "x").unwrap();
            }
            let plots = Files::new().results(Form::Plots, &Some(at("p"))).outputs().unwrap();
            plots[0].1.put(Finished::All, |_| Ok::<(), ReportError>(())).unwrap();
            assert_eq!(at("p.partial").exists(), is_left);
            assert!(!at("p.partial").join("a.svg").exists());
        }
        assert_eq!(fs::read(at("p.partial/notes.txt")).unwrap(), b"x");
    }

    #[test]
    fn what_cannot_be_written_at_the_end_is_refused_before() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("a.partial")).unwrap();
        assert!(clash(Files::new(), at("a")).unwrap().contains("a.partial"));
        symlink("/nowhere/at/all", at("dangling")).unwrap();
        fs::write(at("file"), "").unwrap();
        for name in ["/proc/x", "/proc/x/y", "dangling", "dangling/p", "file", "file/p"] {
            let fills = Files::new().results(Form::Plots, &Some(at(name)));
            let said = fills.outputs().err().unwrap_or_else(|| panic!("{name}")).to_string();
            assert!(said.contains(name), "{said}");
        }
        symlink("a.partial", at("link")).unwrap();
        for name in ["new", "new/p", "a.partial", "link/p", "link"] {
            Files::new().results(Form::Plots, &Some(at(name))).outputs().unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is made");
    }

    #[test]
    fn two_that_are_read_may_be_one_and_a_device_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.litmus");
        fs::write(&file, "x").unwrap();
        let files = || Files::new().reads("a test", &file).reads("another test", &file);
        files().outputs().unwrap();
        let null = Some(PathBuf::from("/dev/null"));
        files().results(Form::Json, &null).outputs().unwrap();
        Files::new().results(Form::Json, &null).results(Form::Plot, &null).outputs().unwrap();
        assert!(clash(files(), file.clone()).is_some());
    }

    #[test]
    fn a_machine_that_an_experiment_names_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let machine = at("m.toml");
        fs::write(&machine, "").unwrap();
        let text = format!("[[series]]\nmachine = '{}'\n", machine.display());
        fs::write(at("figure.toml"), text).unwrap();
        let said = clash(Files::new().reads("a figure", at("figure.toml")), machine).unwrap();
        assert!(said.contains("figure.toml) and --json"), "{said}");
    }

    #[test]
    fn a_plot_in_a_folder_takes_no_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("m.toml"), "").unwrap();
        let fills = || {
            let plots = Some(folder.path().to_owned());
            Files::new().reads("-m", at("m.toml")).results(Form::Plots, &plots)
        };
        assert_eq!(clash(fills(), at("out.json")), None);
        assert!(clash(fills(), at("new.svg")).is_some(), "a plot could have this name");
        symlink("m.toml", at("old.svg")).unwrap();
        let said = clash(fills(), at("out.json")).unwrap();
        assert!(said.contains("-m and --plots"), "{said}");
        let file = Files::new().results(Form::Plots, &Some(at("m.toml")));
        let said = file.outputs().unwrap_err().to_string();
        assert!(said.contains("m.toml"), "{said}");
    }

    #[test]
    fn what_was_finished_before_a_stop_goes_beside_the_old_results() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        fs::write(&path, "of yesterday").unwrap();
        let outputs = Files::new().results(Form::Json, &Some(path.clone())).outputs().unwrap();
        let (_, output) = &outputs[0];
        let put = |finished, text: &str| output.put(finished, |path| fs::write(path, text));
        let said = put(Finished::Nothing, "").unwrap().unwrap();
        assert!(said.contains("before anything was finished"), "{said}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let said = put(Finished::Some, "half").unwrap().unwrap();
        assert!(said.contains("out.json.partial; ") && said.contains("as it was"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "of yesterday");
        let partial = folder.path().join("out.json.partial");
        assert_eq!(fs::read_to_string(partial).unwrap(), "half");
        assert_eq!(put(Finished::All, "whole").unwrap(), None);
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "half is of no use any more");
    }
}
