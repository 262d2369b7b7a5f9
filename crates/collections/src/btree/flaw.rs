//! Bugs that can be planted in a tree, to prove that the checkers find them.

seawall_runtime::flaws! {
    /// A bug that can be planted in a tree.
    BTreeFlaw {
        /// Readers do not check whether a node changed during the read.
        NoValidation,
        /// Writers do not lock.
        NoLock,
        /// A writer unlocks before its transaction commits.
        EarlyUnlock,
        /// A split links the new node in place before its transaction commits.
        EarlyLink,
        /// An insert marks its slot as used in place before its transaction commits.
        EarlySlot,
        /// A merge unlinks a node in place before its transaction commits.
        EarlyUnlink,
    }
}
