//! Options of programs of others that are given without a program.

use super::ProgramOptions;
use crate::LabError;

impl ProgramOptions {
    /// Refuses what would have no effect without a program. That these options need one is also
    /// declared with them, but the parser forgets that beside an option that excludes programs.
    pub(crate) fn check_alone(&self) -> Result<(), LabError> {
        let given = [
            ("--check", self.check.is_some()),
            ("--check-entry", self.check_entry.is_some()),
            ("--pm", self.pm.is_some()),
            ("--fence", self.fence.is_some()),
            ("--from", self.from.is_some()),
            ("--input", self.input.is_some()),
            ("--expect-exit", self.expect_exit.is_some()),
            ("--no-native", self.no_native),
            ("--show-output", self.show_output),
            ("--profile", self.profile),
            ("--profile-folded", self.profile_folded.is_some()),
            ("--program-seconds", self.seconds.is_some()),
        ];
        needs_program(self.command.is_some(), &given)
    }
}

/// Refuses the first of the options that is given, unless there is a program.
pub(crate) fn needs_program(
    is_there: bool,
    options: &[(&'static str, bool)],
) -> Result<(), LabError> {
    match options.iter().find(|(_, is_given)| *is_given && !is_there) {
        Some((option, _)) => Err(LabError::NeedsProgram { option }),
        None => Ok(()),
    }
}
