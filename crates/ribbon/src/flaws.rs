//! Bugs that can be planted in a Ribbon, to prove that the checks find them.

use super::RibbonOptions;

seawall_runtime::flaws! {
    /// A bug that can be planted in a Ribbon.
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    RibbonFlaw {
        /// A flusher counts lines as done before its fence.
        DoneBeforeFence,
        /// A fence waits until its lines are taken on, not until they are done.
        WaitsForClaims,
        /// A takeover does not begin a new generation.
        KeepsGeneration,
        /// A locked operation does not wait as a fence does.
        LockedWaitsForNothing,
        /// A line is handed on before it is stored to, not after.
        HandsOnBeforeStore,
        /// A thread becomes a line's owner, or makes it shared, after its store.
        OwnsLate,
        /// Lines of any owner are skipped.
        SkipsShared,
        /// Lines are skipped once they are handed on, cleaned or not.
        SkipsUndone,
        /// A store to a line that is handed on does not cancel that.
        SkipsRewritten,
        /// A thread that began to skip again takes lines for clean that it had handed on before it
        /// left off.
        RemembersPause,
        /// A thread that skips nothing makes no line its own, or shared, though others skip.
        UnmarkedInPause,
        /// Lines are handed on before all threads are known to mark what they store to.
        NoGrace,
        /// A thread that joins does not look again whether a phase has begun meanwhile.
        JoinsBlindly,
        /// No locked operation stands between a fence and the looks at owner words behind it.
        LooksEarly,
    }
}

impl RibbonOptions {
    /// Whether this bug is planted.
    #[inline(always)]
    pub(crate) fn has(&self, flaw: RibbonFlaw) -> bool {
        #[cfg(feature = "flaws")]
        let planted = Planted::from(self.flaw);
        #[cfg(not(feature = "flaws"))]
        let planted = Planted::default();
        planted.is(flaw)
    }
}
