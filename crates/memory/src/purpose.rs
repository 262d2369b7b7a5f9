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
    /// To see how full pages are.
    Mark,
    /// To decide where objects go.
    Plan,
    /// To meet objects that nobody has met, and to bring pointers up to date.
    Heal,
    /// To give back the pages that objects have left.
    Release,
}

impl Purpose {
    /// All of them, in the order of their numbers.
    pub const ALL: [Purpose; 7] = [
        Purpose::Program,
        Purpose::LookUp,
        Purpose::Copy,
        Purpose::Mark,
        Purpose::Plan,
        Purpose::Heal,
        Purpose::Release,
    ];
}
