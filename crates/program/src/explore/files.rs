//! What both sides of an exploration do with files of pools: what it costs follows what is stored
//! in a file, and not its length.

use crate::request::PAGE;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;

/// Bytes that are copied between two looks at whether to go on.
const PIECE: u64 = 1 << 20;

/// Copies a file, or a folder with all that is in it. Holes of files stay holes, and links to what
/// is copied lead to the copy. `go_on` is asked again and again; its error ends the copy.
pub(crate) fn copy_all<E: From<io::Error>>(
    from: &Path,
    to: &Path,
    go_on: &dyn Fn() -> Result<(), E>,
) -> Result<(), E> {
    copy_part(from, (from, to), go_on)
}

/// Copies what is at `part` of the folder that is copied to the other one.
pub(crate) fn copy_part<E: From<io::Error>>(
    part: &Path,
    (from, to): (&Path, &Path),
    go_on: &dyn Fn() -> Result<(), E>,
) -> Result<(), E> {
    let place = match part.strip_prefix(from) {
        // Nothing joined to a path makes it that of a folder.
        Ok(inside) if inside.as_os_str().is_empty() => to.to_owned(),
        inside => to.join(inside.unwrap_or(part)),
    };
    Copying { from, to, go_on }.copy(part, &place)
}

/// A copy that is being made of one place at the other.
struct Copying<'a, E> {
    from: &'a Path,
    to: &'a Path,
    go_on: &'a dyn Fn() -> Result<(), E>,
}

impl<E: From<io::Error>> Copying<'_, E> {
    fn copy(&self, from: &Path, to: &Path) -> Result<(), E> {
        (self.go_on)()?;
        let is = fs::symlink_metadata(from)?;
        if is.is_symlink() {
            let target = fs::read_link(from)?;
            let moved = target.strip_prefix(self.from).map(|inside| self.to.join(inside));
            return Ok(symlink(moved.unwrap_or(target), to)?);
        }
        if is.is_file() {
            return copy_open(&File::open(from)?, to, self.go_on);
        }
        if is.is_dir() {
            fs::create_dir_all(to)?;
            for entry in fs::read_dir(from)? {
                let name = entry?.file_name();
                self.copy(&from.join(&name), &to.join(&name))?;
            }
        }
        Ok(())
    }
}

/// Copies what an open file has, with its permissions, over what is at `to`.
pub(crate) fn copy_open<E: From<io::Error>>(
    from: &File,
    to: &Path,
    go_on: &dyn Fn() -> Result<(), E>,
) -> Result<(), E> {
    let (is, to) = (from.metadata()?, File::create(to)?);
    to.set_len(is.len())?;
    let (mut piece, mut at) = (Vec::new(), 0);
    while let Some(part) = next_data(from, at)? {
        at = part.end.min(part.start + PIECE);
        piece.resize((at - part.start) as usize, 0);
        from.read_exact_at(&mut piece, part.start)?;
        to.write_all_at(&piece, part.start)?;
        go_on()?;
    }
    Ok(to.set_permissions(is.permissions())?)
}

/// The first part of a file from `at` on that is no hole; all of the rest where the file system
/// does not tell.
fn next_data(file: &File, at: u64) -> io::Result<Option<Range<u64>>> {
    let end = file.metadata()?.len();
    if at >= end {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(at..end)),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(start..seek(file, SeekFrom::Hole(start))?))
}

/// The page of a file that begins at `offset`: zeros where the file is shorter.
pub(crate) fn page_of(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PAGE as usize];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::os::unix::fs::MetadataExt as _;

    fn on_disk(path: &Path) -> u64 {
        fs::metadata(path).unwrap().blocks() * 512
    }

    const LONG: u64 = 256 << 20;

    /// Where the page `n` of a long file with holes is.
    fn place(n: u64) -> u64 {
        n * (32 << 20) + (1 << 20)
    }

    fn sparse(path: &Path, pages: u64) {
        let file = File::create(path).unwrap();
        file.set_len(LONG).unwrap();
        for n in 0..pages {
            file.write_all_at(&[n as u8 + 1; PAGE as usize], place(n)).unwrap();
        }
    }

    #[test]
    fn a_copy_of_a_file_has_its_bytes_and_its_holes() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("deep/to"));
        fs::create_dir(&from).unwrap();
        sparse(&from.join("pool"), 5);
        fs::write(from.join("small"), "small").unwrap();
        symlink(from.join("small"), from.join("link")).unwrap();
        copy_all::<io::Error>(&from, &to, &|| Ok(())).unwrap();
        assert_eq!(fs::read(to.join("small")).unwrap(), b"small");
        assert_eq!(fs::read_link(to.join("link")).unwrap(), to.join("small"));
        let copy = File::open(to.join("pool")).unwrap();
        assert_eq!(copy.metadata().unwrap().len(), LONG);
        assert!(on_disk(&to.join("pool")) < 1 << 20, "{}", on_disk(&to.join("pool")));
        for n in 0..5 {
            let page = page_of(&copy, place(n)).unwrap();
            assert_eq!(page, [n as u8 + 1; PAGE as usize]);
        }
    }

    #[test]
    fn a_copy_ends_when_it_is_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, vec![7; 8 * PIECE as usize]).unwrap();
        let looks = Cell::new(0);
        let twice = || {
            looks.set(looks.get() + 1);
            if looks.get() < 3 { Ok(()) } else { Err(io::Error::other("enough")) }
        };
        assert_eq!(copy_all(&from, &to, &twice).unwrap_err().to_string(), "enough");
        assert!(on_disk(&to) <= 4 * PIECE, "{}", on_disk(&to));
    }
}
