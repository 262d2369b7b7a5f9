//! Planted bugs: a heap with one of them breaks a promise, and a test asserts that a checker finds
//! it. They exist with the feature `flaws` only, which the laboratory and the tests enable: the
//! library that users build has neither the bugs nor the branches that ask for them.

/// Declares the bugs that can be planted in a structure, and `Planted`, which its fields hold:
/// without the feature that has no bytes, and never [is](Planted::is) one of them.
#[doc(hidden)]
#[macro_export]
macro_rules! flaws {
    ($(#[$about:meta])* $flaw:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        $(#[$about])*
        #[cfg(feature = "flaws")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub enum $flaw {
            /// None: everything as it should be.
            #[default]
            None,
            $($(#[$doc])* $name,)*
        }

        $(#[$about])*
        #[cfg(not(feature = "flaws"))]
        #[derive(Clone, Copy)]
        pub(crate) enum $flaw {
            $($(#[$doc])* $name,)*
        }

        /// The bug that is planted, if there is one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub(crate) struct Planted(#[cfg(feature = "flaws")] $flaw);

        #[cfg(not(feature = "flaws"))]
        const _: () = assert!(size_of::<Planted>() == 0);

        impl Planted {
            /// Whether it is this one.
            #[cfg(feature = "flaws")]
            #[inline(always)]
            pub(crate) fn is(self, flaw: $flaw) -> bool {
                self.0 == flaw
            }

            /// Whether it is this one.
            #[cfg(not(feature = "flaws"))]
            #[inline(always)]
            pub(crate) const fn is(self, _: $flaw) -> bool {
                false
            }
        }

        #[cfg(feature = "flaws")]
        impl From<$flaw> for Planted {
            fn from(flaw: $flaw) -> Planted {
                Planted(flaw)
            }
        }
    };
}

flaws! {
    /// A bug that can be planted in a heap.
    HeapFlaw {
        /// Data is stored in place before its log record is durable.
        NoFence,
        /// Log records are stored, but not flushed before the fence. Only machines that need
        /// flushes show it.
        NoLogFlush,
        /// Logs are truncated without flushing the data that they wrote.
        NoFlush,
        /// A step of truncation ahead leaves out the first line of each entry.
        LossyStep,
        /// A step of truncation ahead is believed before its fence.
        EarlyStep,
        /// A step of truncation ahead takes the list of a thread that still adds to it.
        HastyStep,
        /// A line on the list of a generation's dirty lines is left off the list of the next.
        OldList,
        /// Data is changed in place before its old values are durable.
        LateUndo,
        /// Old values are logged in whole words, and so restored with their neighbours.
        WholeWords,
        /// A log does not say where it goes on, or says so before what is there is durable.
        LostExtension,
        /// Older values of a range that an undo transaction has flushed are not void.
        StaleRange,
        /// Where programs store in place, a transaction ends without flushing what it stored.
        UnflushedStores,
        /// Where programs store in place, no fence stands before the record of a transaction's end.
        EarlyEndMark,
        /// Logs are truncated without waiting for threads that are storing what they logged.
        NoWait,
        /// Recovery replays records thread by thread, not in the order of their stamps.
        NoOrder,
        /// Recovery does not check the end of a log half against what the newer half says of it.
        NoBefore,
        /// The end of a thread's half is read before the mark that the thread still writes to it.
        EarlyEnd,
        /// A record can lie behind the zone that its thread named last.
        NoReach,
        /// Freeing a large block leaves out the record that its bytes are void.
        NoFreed,
        /// The heap counts chunks that it has not grown by yet.
        EarlyGrowth,
        /// A new type gets its number by plain stores, not by a log record.
        UnloggedType,
        /// A new type gets its number without the lock.
        UnlockedType,
        /// The states of an object that is placed with others are not all in the log.
        UnloggedStates,
        /// Recovery copies every object of a cycle again, also those that the program changed
        /// after they had moved: the rule of the FFCCD paper for its protocol of one fence, with
        /// the fence where that paper has it.
        CopiesMoved,
        /// Recovery believes an object's mark "moved", though its copy may not be durable: the
        /// rule of that paper's slides, with the fence in the same place.
        BelievesMoved,
        /// A thread that finds an object freshly moved does not flush the mark that says so.
        TrustsCopied,
        /// Recovery after relocation by hardware takes both copies in a shared line for durable
        /// once the line has persisted after one of the two was made.
        BelievesReached,
        /// Pages whose objects hardware has moved are released without flushing the lines that
        /// copies share, if those have persisted since one of the copies was made.
        ReleasesReached,
        /// Recovery after relocation by hardware does not replay the logs once more after it has
        /// copied.
        ReplaysOnce,
    }
}
