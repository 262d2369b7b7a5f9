//! The values of lines: a shared value per line, and versions for the holders that differ.
//!
//! The shared value of a line is the shared cache's, and memory's too unless the cache's is dirty.
//! A holder whose data differ from the shared value owns a `Version`: a core that has written the
//! line, memory while the shared cache is newer, or a write that is not durable yet and keeps the
//! value that it replaced. Few lines differ at any time, so versions are few and are reused at
//! once; a move from a core to memory moves only the version's number, and at most swaps it with
//! the shared value.

use crate::LineId;

/// The 64 bytes of a line.
pub(crate) type LineData = [u64; 8];

/// A value that differs from the shared one, or [`NONE`](Version::NONE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u32);

impl Version {
    /// No version: the holder has the shared value.
    pub(crate) const NONE: Version = Version(u32::MAX);

    #[inline]
    pub(crate) fn is_some(self) -> bool {
        self != Version::NONE
    }
}

/// The values of all lines.
pub(crate) struct Values {
    shared: Vec<LineData>,
    versions: Vec<LineData>,
    free: Vec<Version>,
}

impl Values {
    /// Lines with these shared values and no versions.
    pub(crate) fn new(shared: Vec<LineData>) -> Values {
        Values { shared, versions: Vec::new(), free: Vec::new() }
    }

    /// The number of lines.
    #[inline]
    pub(crate) fn lines(&self) -> LineId {
        self.shared.len() as LineId
    }

    /// The shared values, by line.
    pub(crate) fn all_shared(&self) -> &[LineData] {
        &self.shared
    }

    /// The shared value of `line`.
    #[inline]
    pub(crate) fn shared(&self, line: LineId) -> &LineData {
        &self.shared[line as usize]
    }

    /// The shared value of `line`, mutably.
    pub(crate) fn shared_mut(&mut self, line: LineId) -> &mut LineData {
        &mut self.shared[line as usize]
    }

    /// The value of `version`, which must not be `NONE`.
    #[inline]
    pub(crate) fn version(&self, version: Version) -> &LineData {
        &self.versions[version.0 as usize]
    }

    /// The value of `version`, mutably.
    #[inline]
    pub(crate) fn version_mut(&mut self, version: Version) -> &mut LineData {
        &mut self.versions[version.0 as usize]
    }

    /// Creates a version of `line` that starts as the shared value.
    #[inline]
    pub(crate) fn differ(&mut self, line: LineId) -> Version {
        let data = self.shared[line as usize];
        if let Some(version) = self.free.pop() {
            self.versions[version.0 as usize] = data;
            return version;
        }
        self.versions.push(data);
        Version(self.versions.len() as u32 - 1)
    }

    /// Releases `version`; does nothing for `NONE`.
    #[inline]
    pub(crate) fn release(&mut self, version: Version) {
        if version.is_some() {
            self.free.push(version);
        }
    }

    /// Swaps the value of `version` with the shared value of `line`.
    #[inline]
    pub(crate) fn swap(&mut self, line: LineId, version: Version) {
        let (shared, own) =
            (&mut self.shared[line as usize], &mut self.versions[version.0 as usize]);
        std::mem::swap(shared, own);
    }

    /// Makes the value of `version` the shared value of `line`; releases the version.
    #[inline]
    pub(crate) fn share(&mut self, line: LineId, version: Version) {
        self.shared[line as usize] = self.versions[version.0 as usize];
        self.free.push(version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_starts_as_the_shared_value_and_can_take_its_place() {
        let mut values = Values::new(vec![[1; 8], [2; 8]]);
        let mine = values.differ(1);
        values.version_mut(mine)[0] = 7;
        assert_eq!(values.shared(1), &[2; 8]);
        values.swap(1, mine);
        assert_eq!(values.shared(1)[0], 7);
        assert_eq!(values.version(mine), &[2; 8]);
        values.share(1, mine);
        assert_eq!(values.shared(1), &[2; 8]);
        assert_eq!(values.differ(0), mine, "a released version is used again");
        assert_eq!(values.version(mine), &[1; 8]);
    }
}
