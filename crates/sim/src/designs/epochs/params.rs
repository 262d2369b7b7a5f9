//! The parameters of the designs of this family, and the macros by which one of them is declared.

/// The parameters of a persist barrier, those of a design of its own (`extra`), and its `design`.
macro_rules! epoch_params {
    (
        waits: $waits:expr, tracks: $tracks:expr, proactive: $proactive:expr,
        $(bulk: $bulk:expr,)?
        extra: {$($(#[doc = $doc:literal])* $name:ident: $Type:ty = $default:expr, $check:expr;)*}
    ) => {
        /// Parameters of the persist barrier.
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(super) struct Params {
            /// Durable when the controller's queue accepts a write (ADR).
            adr: bool,
            /// A flush takes the line out of the caches, as `clflush` does.
            invalidating: bool,
            /// Epochs in flight per core, 2 to 64.
            epochs: u32,
            /// Dependence and inform registers per epoch, 0 to 64.
            registers: usize,
            /// Cycles to search a group of 64 sets for lines of an epoch, 0 to 10000.
            search_cycles: u64,
            $($(#[doc = $doc])* $name: $Type,)*
            /// A deliberate mistake in the mechanism, to test the checks.
            flaw: crate::designs::epochs::EpochFlaw,
        }

        impl Default for Params {
            fn default() -> Params {
                Params {
                    adr: false,
                    invalidating: false,
                    epochs: 8,
                    registers: 4,
                    search_cycles: 8,
                    $($name: $default,)*
                    flaw: Default::default(),
                }
            }
        }

        impl crate::designs::Parameters for Params {
            fn adr(&self) -> bool {
                self.adr
            }

            $(fn keeps_promise(&self) -> bool {
                let bulk: fn(&Params) -> crate::designs::epochs::BulkConfig = $bulk;
                bulk(self).log
            })?

            fn check(&self) -> Result<(), String> {
                use crate::config::within;
                within("epochs", self.epochs.into(), 2, 64)?;
                within("registers", self.registers as u64, 0, 64)?;
                within("search_cycles", self.search_cycles, 0, 10_000)?;
                $($check(stringify!($name), &self.$name)?;)*
                Ok(())
            }
        }

        pub(super) fn design(
            params: &Params,
            machine: &crate::config::Machine,
            lines: crate::LineId,
        ) -> crate::designs::epochs::Epochs {
            let config = crate::designs::epochs::Config {
                waits: $waits,
                tracks: $tracks,
                proactive: $proactive,
                invalidates: params.invalidating,
                in_flight: params.epochs,
                registers: params.registers,
                search_cycles: params.search_cycles,
                flaw: params.flaw,
            };
            let epochs = crate::designs::epochs::Epochs::new(config, machine, lines);
            $(let bulk: fn(&Params) -> _ = $bulk; let epochs = epochs.in_bulk(bulk(params));)?
            epochs
        }
    };
    (waits: $waits:expr, tracks: $tracks:expr, proactive: $proactive:expr $(,)?) => {
        crate::designs::epochs::epoch_params! {
            waits: $waits, tracks: $tracks, proactive: $proactive, extra: {}
        }
    };
}

/// The same for a design that makes the epochs itself.
macro_rules! bulk_params {
    (tracks: $tracks:expr, proactive: $proactive:expr $(,)?) => {
        crate::designs::epochs::epoch_params! {
            waits: false,
            tracks: $tracks,
            proactive: $proactive,
            bulk: |params| crate::designs::epochs::BulkConfig {
                stores: params.stores,
                log: params.log,
                records: params.records,
                buffers: params.buffers,
                state_lines: params.state_lines,
            },
            extra: {
                /// Stores of an epoch, 1 to 1000000000.
                stores: u64 = 10_000, |key, value: &u64| within(key, *value, 1, 1_000_000_000);
                /// Keep an undo log in persistent memory; without, an epoch may be there in part,
                /// and programs, which do not know where one ends, are promised nothing.
                log: bool = true, |_, _: &bool| Ok::<(), String>(());
                /// Records of 7 lines in the log of a core, 2 to 65536.
                records: u32 = 2048, |key, value: &u32| within(key, (*value).into(), 2, 65_536);
                /// Records of a core that are on their way to memory at once, 1 to 64.
                buffers: u32 = 16, |key, value: &u32| within(key, (*value).into(), 1, 64);
                /// Lines that hold the state of a processor, 1 to 64.
                state_lines: u32 = 16, |key, value: &u32| within(key, (*value).into(), 1, 64);
            }
        }
    };
}
pub(in crate::designs) use {bulk_params, epoch_params};
