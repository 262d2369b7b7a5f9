//! The parameters of the designs of this family, and the macros that declare a design.

/// Declares the parameters of a persist barrier, those of one design (`extra`), and its `design`.
macro_rules! epoch_params {
    (
        waits: $waits:expr, tracks: $tracks:expr, proactive: $proactive:expr,
        $(bulk: $bulk:expr,)?
        extra: {$($extra:tt)*}
    ) => {
        crate::families::params::parameters! {
            /// A write is durable when the controller's queue accepts it (ADR).
            adr: bool = false;
            /// A flush removes the line from the caches, as `clflush` does.
            invalidating: bool = false;
            /// Epochs in flight per core.
            epochs: u32 = 8, in 2..=64;
            /// Dependence and inform registers per epoch.
            registers: usize = 4, in 0..=64;
            /// Cycles to search a group of 64 sets for lines of an epoch.
            search_cycles: u64 = 8, in 0..=10_000;
            $($extra)*
            /// A planted bug in the mechanism, to test the checks.
            flaw: crate::families::epochs::EpochFlaw = Default::default();
        }

        pub(super) fn design(
            params: &Params,
            machine: &crate::config::Machine,
            lines: crate::LineId,
        ) -> crate::families::epochs::Epochs {
            let config = crate::families::epochs::Config {
                waits: $waits,
                tracks: $tracks,
                proactive: $proactive,
                invalidates: params.invalidating,
                in_flight: params.epochs,
                registers: params.registers,
                search_cycles: params.search_cycles,
                flaw: params.flaw,
            };
            let epochs = crate::families::epochs::Epochs::new(config, machine, lines);
            $(let bulk: fn(&Params) -> _ = $bulk; let epochs = epochs.in_bulk(bulk(params));)?
            epochs
        }
    };
    (waits: $waits:expr, tracks: $tracks:expr, proactive: $proactive:expr $(,)?) => {
        crate::families::epochs::epoch_params! {
            waits: $waits, tracks: $tracks, proactive: $proactive, extra: {}
        }
    };
}

/// Like `epoch_params`, for a design whose epochs are made by hardware.
macro_rules! bulk_params {
    (tracks: $tracks:expr, proactive: $proactive:expr $(,)?) => {
        crate::families::epochs::epoch_params! {
            waits: false,
            tracks: $tracks,
            proactive: $proactive,
            bulk: |params| crate::families::epochs::BulkConfig {
                stores: params.stores,
                log: params.log,
                records: params.records,
                buffers: params.buffers,
                state_lines: params.state_lines,
            },
            extra: {
                /// Stores of an epoch.
                stores: u64 = 10_000, in 1..=1_000_000_000;
                /// Keep an undo log in persistent memory. `log=false` gives up atomic epochs: a
                /// crash may leave part of one, so that no consistent cut is promised.
                log: bool = true;
                /// Records of 7 lines in the log of a core.
                records: u32 = 2048, in 2..=65_536;
                /// Records of a core that are on their way to memory at once.
                buffers: u32 = 16, in 1..=64;
                /// Lines that hold the state of a processor.
                state_lines: u32 = 16, in 1..=64;
            }
        }
    };
}
pub(crate) use {bulk_params, epoch_params};
