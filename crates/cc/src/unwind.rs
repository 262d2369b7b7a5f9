//! Where a function's return address is, at each of its instructions: the tables that compilers
//! write for exceptions and debuggers (`.eh_frame`). With them the callers of an access are known
//! exactly, whereas a stack also holds return addresses of calls that are over.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, LittleEndian, RegisterRule, UnwindContext,
    UnwindSection as _, X86_64,
};
use object::{Object as _, ObjectSection as _};
use std::fs;
use std::ops::Range;
use std::path::Path;

/// The register from which a frame is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// `%rsp`.
    Stack,
    /// `%rbp`.
    Frame,
}

/// Some instructions of a function, and where its frame is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwindRow {
    /// The instructions, as addresses in the module.
    pub code: Range<u64>,
    /// Where their function begins.
    pub function: u64,
    /// The address behind the return address: a register and what is to be added.
    pub frame: (Base, i64),
    /// Where the caller's `%rbp` is, from that address on; `None` if the register still has it.
    pub saved: Option<i64>,
}

/// The rows of a module, by address; those of frames that are found otherwise are left out, as are
/// functions without a table.
pub fn unwind_rows(module: &Path) -> Vec<UnwindRow> {
    let bytes = fs::read(module).unwrap_or_default();
    let mut rows = object::File::parse(&*bytes).ok().and_then(|module| rows(&module));
    if let Some(rows) = &mut rows {
        rows.sort_by_key(|row| row.code.start);
    }
    rows.unwrap_or_default()
}

fn rows(module: &object::File<'_>) -> Option<Vec<UnwindRow>> {
    let section = module.section_by_name(".eh_frame")?;
    let text = module.section_by_name(".text")?;
    let tables = EhFrame::new(section.data().ok()?, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(text.address());
    let (mut context, mut rows) = (UnwindContext::new(), Vec::new());
    let mut entries = tables.entries(&bases);
    // A table that cannot be read ends what is known.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(function) = entry else { continue };
        let cie = |_: &_, bases: &_, offset| tables.cie_from_offset(bases, offset);
        let Ok(function) = function.parse(cie) else { continue };
        let start = function.initial_address();
        let Ok(mut table) = function.rows(&tables, &bases, &mut context) else { continue };
        while let Ok(Some(row)) = table.next_row() {
            let base = match row.cfa() {
                CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => {
                    (Base::Stack, *offset)
                }
                CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => {
                    (Base::Frame, *offset)
                }
                _ => continue,
            };
            let saved = match row.register(X86_64::RBP) {
                Some(RegisterRule::Offset(at)) => Some(at),
                _ => None,
            };
            let code = row.start_address()..row.end_address();
            rows.push(UnwindRow { code, function: start, frame: base, saved });
        }
    }
    Some(rows)
}
