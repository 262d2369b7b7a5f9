//! Files that a program has outside the folder of its run: it finds its own copies of them, under
//! their own paths, and the user's stay as they are.
//!
//! A file that is opened for writing is copied first, to its path below [`OUT`]; from then on that
//! is the file of that path. One that is removed is marked there. So a run leaves all its files in
//! one folder, whatever paths they have, and what a crash has left of them can be put into another
//! one for a check. Files that are only read, that are only appended to (as logs are), or are no
//! files (devices, pipes) are the user's own.
//!
//! A pool may have the paths of other files in it. A check has its files in another folder than the
//! run, and finds them under the run's paths, too.

use super::notified::{Call, Verdict};
use crate::explore::files::copy_open;
use crate::folder::{FILES, OUT, Roots};
use libc::{c_int, pid_t};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, StatxFlags};
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Where the link points to that stands for a file that is removed.
const REMOVED: &str = "removed by the program";

/// The files of a program.
pub(crate) struct Elsewhere {
    roots: Roots,
    /// Whose files are those of `roots.own`; the others' are below `roots.others`.
    program: pid_t,
    /// Folders of the command, whose files are what they are.
    folders: Vec<PathBuf>,
}

/// What is below [`OUT`] for a path.
enum There {
    Nothing,
    Removed,
    Put,
}

/// A path outside the folders of the command, and where its copy is or would be.
struct Place {
    is: PathBuf,
    copy: PathBuf,
    /// Whether it is a path of the run, for a check.
    is_of_run: bool,
}

impl Elsewhere {
    pub(crate) fn new(roots: &Roots, program: pid_t, folders: &[PathBuf]) -> Elsewhere {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let folders = folders.iter().flat_map(|path| [path.clone(), real(path)]).collect();
        Elsewhere { roots: roots.clone(), program, folders }
    }

    /// What becomes of a call.
    pub(crate) fn judge(&self, call: &Call) -> Verdict {
        self.try_call(call).unwrap_or(Verdict::GoOn)
    }

    /// `None` if the process is to make the call itself.
    fn try_call(&self, call: &Call) -> Option<Verdict> {
        const HERE: u64 = libc::AT_FDCWD as u64;
        const NO_FOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;
        let [a, b, c, d, e, _] = call.words;
        let made = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
        match call.number {
            libc::SYS_openat => self.open(call, (a, b), c as c_int, d as u32),
            libc::SYS_open => self.open(call, (HERE, a), b as c_int, c as u32),
            libc::SYS_creat => self.open(call, (HERE, a), made as c_int, b as u32),
            libc::SYS_newfstatat => self.stat(call, (a, b), c, d & NO_FOLLOW == 0),
            libc::SYS_stat => self.stat(call, (HERE, a), b, true),
            libc::SYS_lstat => self.stat(call, (HERE, a), b, false),
            libc::SYS_statx => self.statx(call, (a, b), (c as c_int, d as u32), e),
            libc::SYS_access => self.access(call, (HERE, a), b as c_int),
            libc::SYS_faccessat | libc::SYS_faccessat2 => self.access(call, (a, b), c as c_int),
            libc::SYS_unlink => self.remove(call, (HERE, a), false),
            libc::SYS_rmdir => self.remove(call, (HERE, a), true),
            libc::SYS_unlinkat => self.remove(call, (a, b), c & libc::AT_REMOVEDIR as u64 != 0),
            libc::SYS_rename => self.rename(call, (HERE, a), (HERE, b), 0),
            libc::SYS_renameat => self.rename(call, (a, b), (c, d), 0),
            libc::SYS_renameat2 => self.rename(call, (a, b), (c, d), e as u32),
            libc::SYS_link => self.link(call, (HERE, a), (HERE, b)),
            libc::SYS_linkat => self.link(call, (a, b), (c, d)),
            libc::SYS_truncate => self.truncate(call, (HERE, a), b),
            libc::SYS_mkdir => self.make_folder(call, (HERE, a), b as u32),
            libc::SYS_mkdirat => self.make_folder(call, (a, b), c as u32),
            libc::SYS_chmod => self.chmod(call, (HERE, a), b as u32),
            _ => None,
        }
    }

    /// The folder with the files of who makes a call.
    fn root(&self, call: &Call) -> &Path {
        if call.process == self.program { &self.roots.own } else { &self.roots.others }
    }

    /// The path that a call names by a folder and an address; `None` if it is not outside.
    fn place(&self, call: &Call, (folder, at): (u64, u64), follows: bool) -> Option<Place> {
        let named = PathBuf::from(call.path(at)?);
        if named.as_os_str().is_empty() {
            return None;
        }
        let whole =
            if named.is_absolute() { named } else { base(call, folder as c_int)?.join(named) };
        if let Some(copy) = self.of_run(call, &whole) {
            return Some(Place { is: whole, copy, is_of_run: true });
        }
        // Some paths of the system mean another file in each process.
        if self.is_ours(&whole) || is_of_system(&whole) {
            return None;
        }
        let out = self.root(call).join(OUT);
        let real = || {
            let (parent, name) = (whole.parent()?, whole.file_name()?);
            let parent = parent.canonicalize().ok().or_else(|| made_folder(&out, parent))?;
            Some(parent.join(name))
        };
        let followed = follows.then(|| whole.canonicalize().ok()).flatten();
        let is = followed.or_else(real)?;
        if self.is_ours(&is) || is_of_system(&is) {
            return None;
        }
        let copy = out.join(is.strip_prefix("/").ok()?);
        Some(Place { is, copy, is_of_run: false })
    }

    /// Where a check has what the run has at this path.
    fn of_run(&self, call: &Call, path: &Path) -> Option<PathBuf> {
        let inside = self.folders.iter().find_map(|folder| path.strip_prefix(folder).ok())?;
        let mut parts = inside.components();
        let run = parts.by_ref().take_while(|part| part.as_os_str() != FILES).count();
        let files = path.components().count() - inside.components().count() + run + 1;
        let is_there = files < path.components().count() && self.is_ours(path);
        let of: PathBuf = path.components().take(files).collect();
        let root = self.root(call);
        (is_there && of != root && !root.starts_with(&of)).then(|| root.join(parts.as_path()))
    }

    fn is_ours(&self, path: &Path) -> bool {
        let goes_back = || path.components().any(|part| part == Component::ParentDir);
        self.folders.iter().any(|folder| path.starts_with(folder)) && !goes_back()
    }

    fn open(&self, call: &Call, at: (u64, u64), flags: c_int, mode: u32) -> Option<Verdict> {
        let place = self.place(call, at, flags & libc::O_NOFOLLOW == 0)?;
        let creates = flags & libc::O_CREAT != 0;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
        let appends = flags & libc::O_APPEND != 0 && flags & libc::O_ACCMODE == libc::O_WRONLY;
        match place.there() {
            There::Put => {}
            There::Removed if !creates => return Some(Verdict::Done(-i64::from(libc::ENOENT))),
            There::Removed => drop(fs::remove_file(&place.copy)),
            There::Nothing if appends || !(writes || creates) => return None,
            There::Nothing => {
                let is = fs::metadata(&place.is);
                let may = match &is {
                    Ok(is) => is.is_file() && !(creates && flags & libc::O_EXCL != 0) && writes,
                    Err(_) => creates,
                };
                if flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 || !may {
                    return None;
                }
                place.copy_up(flags & libc::O_TRUNC != 0)?;
            }
        }
        let how = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&place.copy, how, Mode::from_bits_retain(mode));
        Some(match opened {
            Ok(file) => Verdict::Opened(file, flags & libc::O_CLOEXEC != 0),
            Err(error) => Verdict::of(Err(error.into())),
        })
    }

    /// A call that only looks at a file, as it is made of the copy, if there is one.
    fn look(
        &self,
        call: &Call,
        at: (u64, u64),
        follows: bool,
        look: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Option<Verdict> {
        let place = self.place(call, at, follows)?;
        match place.there() {
            There::Nothing => None,
            There::Removed => Some(Verdict::Done(-i64::from(libc::ENOENT))),
            There::Put => Some(Verdict::of(look(&place.copy).map(|()| 0))),
        }
    }

    fn stat(&self, call: &Call, at: (u64, u64), to: u64, follows: bool) -> Option<Verdict> {
        self.look(call, at, follows, |path| call.give(to, &rustix::fs::stat(path)?))
    }

    fn statx(
        &self,
        call: &Call,
        at: (u64, u64),
        (flags, mask): (c_int, u32),
        to: u64,
    ) -> Option<Verdict> {
        self.look(call, at, flags & libc::AT_SYMLINK_NOFOLLOW == 0, |path| {
            let flags = AtFlags::from_bits_retain(flags as u32);
            let mask = StatxFlags::from_bits_retain(mask);
            call.give(to, &rustix::fs::statx(CWD, path, flags, mask)?)
        })
    }

    fn access(&self, call: &Call, at: (u64, u64), how: c_int) -> Option<Verdict> {
        self.look(call, at, true, |path| {
            Ok(rustix::fs::access(path, Access::from_bits_retain(how as u32))?)
        })
    }

    fn remove(&self, call: &Call, at: (u64, u64), is_folder: bool) -> Option<Verdict> {
        let place = self.place(call, at, false)?;
        match place.there() {
            There::Removed => Some(Verdict::Done(-i64::from(libc::ENOENT))),
            There::Put if is_folder => Some(Verdict::of(fs::remove_dir(&place.copy).map(|()| 0))),
            There::Put => Some(Verdict::of(
                fs::remove_file(&place.copy).and_then(|()| place.mark_removed()).map(|()| 0),
            )),
            There::Nothing => {
                let is = fs::symlink_metadata(&place.is).ok()?;
                let may = !is_folder && (is.is_file() || is.is_symlink());
                (may && place.parent_may_change())
                    .then(|| Verdict::of(place.mark_removed().map(|()| 0)))
            }
        }
    }

    /// The file that a call is to move or to give another name: a copy, if it is outside.
    fn source(&self, call: &Call, at: (u64, u64)) -> Option<(PathBuf, Option<Place>)> {
        let Some(place) = self.place(call, at, false) else {
            let named = PathBuf::from(call.path(at.1)?);
            let whole = base(call, at.0 as c_int)?.join(named);
            return self.is_ours(&whole).then_some((whole, None));
        };
        if matches!(place.there(), There::Nothing) {
            let is_file = fs::symlink_metadata(&place.is).is_ok_and(|is| is.is_file());
            if !is_file {
                return None;
            }
            place.copy_up(false)?;
        }
        Some((place.copy.clone(), Some(place)))
    }

    /// Where a call is to put a file: below [`OUT`], if it is outside.
    fn target(&self, call: &Call, at: (u64, u64)) -> Option<(PathBuf, Option<Place>)> {
        let Some(place) = self.place(call, at, false) else {
            let whole = base(call, at.0 as c_int)?.join(PathBuf::from(call.path(at.1)?));
            return self.is_ours(&whole).then_some((whole, None));
        };
        if !place.parent_may_change() {
            return None;
        }
        fs::create_dir_all(place.copy.parent()?).ok()?;
        Some((place.copy.clone(), Some(place)))
    }

    fn rename(&self, call: &Call, from: (u64, u64), to: (u64, u64), flags: u32) -> Option<Verdict> {
        let is_inside = |at| self.place(call, at, false).is_none();
        if is_inside(from) && is_inside(to) {
            return None;
        }
        let (from, source) = self.source(call, from)?;
        let (to, target) = self.target(call, to)?;
        let is_there = || target.as_ref().map_or_else(|| to.exists(), Place::is_there);
        if flags & libc::RENAME_NOREPLACE != 0 && is_there() {
            return Some(Verdict::Done(-i64::from(libc::EEXIST)));
        }
        if flags & !libc::RENAME_NOREPLACE != 0 {
            return Some(Verdict::Done(-i64::from(libc::EINVAL)));
        }
        let renamed = fs::rename(from, to);
        let marked = renamed.and_then(|()| source.map_or(Ok(()), |it| it.mark_removed()));
        Some(Verdict::of(marked.map(|()| 0)))
    }

    fn link(&self, call: &Call, from: (u64, u64), to: (u64, u64)) -> Option<Verdict> {
        let is_inside = |at| self.place(call, at, false).is_none();
        if is_inside(from) && is_inside(to) {
            return None;
        }
        let (from, _) = self.source(call, from)?;
        let (to, target) = self.target(call, to)?;
        if target.is_some_and(|target| target.is_there()) {
            return Some(Verdict::Done(-i64::from(libc::EEXIST)));
        }
        // A mark of what was removed makes room.
        let _ = fs::remove_file(&to);
        Some(Verdict::of(fs::hard_link(from, to).map(|()| 0)))
    }

    fn truncate(&self, call: &Call, at: (u64, u64), bytes: u64) -> Option<Verdict> {
        self.change(call, at, |path| fs::OpenOptions::new().write(true).open(path)?.set_len(bytes))
    }

    fn chmod(&self, call: &Call, at: (u64, u64), mode: u32) -> Option<Verdict> {
        use std::os::unix::fs::PermissionsExt as _;
        self.change(call, at, |path| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
    }

    /// A call that changes a file, as it is made of the copy.
    fn change(
        &self,
        call: &Call,
        at: (u64, u64),
        change: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Option<Verdict> {
        let place = self.place(call, at, true)?;
        match place.there() {
            There::Removed => return Some(Verdict::Done(-i64::from(libc::ENOENT))),
            There::Put => {}
            There::Nothing if fs::metadata(&place.is).is_ok_and(|is| is.is_file()) => {
                place.copy_up(false)?;
            }
            There::Nothing => return None,
        }
        Some(Verdict::of(change(&place.copy).map(|()| 0)))
    }

    fn make_folder(&self, call: &Call, at: (u64, u64), mode: u32) -> Option<Verdict> {
        let place = self.place(call, at, false)?;
        match place.there() {
            There::Put if place.copy.exists() => {
                return Some(Verdict::Done(-i64::from(libc::EEXIST)));
            }
            There::Put => {}
            There::Removed => drop(fs::remove_file(&place.copy)),
            There::Nothing if place.is.exists() || !place.parent_may_change() => return None,
            There::Nothing => {}
        }
        fs::create_dir_all(place.copy.parent()?).ok()?;
        let made = rustix::fs::mkdir(&place.copy, Mode::from_bits_retain(mode));
        Some(Verdict::of(made.map(|()| 0).map_err(io::Error::from)))
    }
}

impl Place {
    fn there(&self) -> There {
        if self.is_of_run {
            return There::Put;
        }
        match fs::symlink_metadata(&self.copy) {
            // A folder that is there is one that holds copies.
            Ok(is) if is.is_dir() && self.is.is_dir() => There::Nothing,
            Ok(is) if is.is_symlink() => There::Removed,
            Ok(_) => There::Put,
            Err(_) => There::Nothing,
        }
    }

    /// Whether the program finds a file there.
    fn is_there(&self) -> bool {
        match self.there() {
            There::Put => self.copy.exists(),
            There::Removed => false,
            There::Nothing => fs::symlink_metadata(&self.is).is_ok(),
        }
    }

    /// Whether the user may make and remove files in the folder.
    fn parent_may_change(&self) -> bool {
        if self.is_of_run {
            return true;
        }
        let Some(parent) = self.is.parent() else { return false };
        may_write(parent) || !parent.exists()
    }

    /// Makes the copy: of what is there, or of its kind alone. `None` if the user may not write to
    /// it, which the process is then told by the call itself.
    fn copy_up(&self, is_empty: bool) -> Option<()> {
        let may = if self.is.exists() { may_write(&self.is) } else { self.parent_may_change() };
        if !may {
            return None;
        }
        fs::create_dir_all(self.copy.parent()?).ok()?;
        if !self.is.exists() {
            return Some(());
        }
        let copied = if is_empty {
            let is = fs::metadata(&self.is).ok()?;
            File::create(&self.copy).and_then(|copy| copy.set_permissions(is.permissions()))
        } else {
            let from = File::open(&self.is).ok()?;
            copy_open::<io::Error>(&from, &self.copy, &|| Ok(()))
        };
        copied.inspect_err(|_| drop(fs::remove_file(&self.copy))).ok()
    }

    fn mark_removed(&self) -> io::Result<()> {
        if self.is_of_run || fs::symlink_metadata(&self.is).is_err() {
            return Ok(());
        }
        fs::create_dir_all(self.copy.parent().unwrap_or(Path::new("/")))?;
        std::os::unix::fs::symlink(REMOVED, &self.copy)
    }
}

/// The folder that a relative path of a call begins in.
fn base(call: &Call, folder: c_int) -> Option<PathBuf> {
    let process = Path::new("/proc").join(call.process.to_string());
    let link = match folder {
        libc::AT_FDCWD => process.join("cwd"),
        folder => process.join("fd").join(folder.to_string()),
    };
    fs::read_link(link).ok()
}

/// A folder that the program has made, which is nowhere else.
fn made_folder(out: &Path, folder: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::from("/");
    for part in folder.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            _ => {}
        }
    }
    out.join(plain.strip_prefix("/").ok()?).is_dir().then_some(plain)
}

/// Whether a path is of the system: of no file that anybody keeps.
fn is_of_system(path: &Path) -> bool {
    let is_device = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    is_device || path.starts_with("/proc") || path.starts_with("/sys")
}

/// Whether the user may write to a file, or make and remove files in a folder.
fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}
