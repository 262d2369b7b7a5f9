//! What a thread's time is spent on, said by a library that works for a program.

/// What comes next is for this, on machines that account for time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Purpose {
    /// The program's own work.
    #[default]
    Program,
    /// To find out where an object is now.
    LookUp,
    /// To move an object.
    Copy,
    /// The rest of defragmentation.
    Collect,
}

impl Purpose {
    /// All of them, in the order of their numbers.
    pub const ALL: [Purpose; 4] =
        [Purpose::Program, Purpose::LookUp, Purpose::Copy, Purpose::Collect];
}
