//! Bugs that can be planted in a map, to prove that the checkers find them.

seawall_runtime::flaws! {
    /// A bug that can be planted in a map.
    MapFlaw {
        /// A split or a merge links the new segment before its content is durable.
        EarlySegment,
        /// A new directory is switched to before its content is durable.
        EarlyDirectory,
        /// A merge does not lock the segment of the other half.
        LooseBuddy,
        /// Readers do not check whether the versions are still the same.
        NoVersion,
        /// Writers take no lock.
        NoLock,
        /// A removed entry leaves a slot that looks never used.
        NoTombstone,
        /// A record is allocated in one transaction, and linked in the next.
        EarlyRecord,
        /// All keys of a map of byte strings have one of four hashes. It works up to sixteen keys
        /// of each.
        WeakHash,
        /// A replaced record is freed in a transaction after the one that links the new record.
        LateFree,
    }
}
