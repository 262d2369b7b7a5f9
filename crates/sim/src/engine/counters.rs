//! The counters of a simulation. One declaration yields field, doc, sum, table and JSON.

use serde::{Deserialize, Serialize};

/// Declares a struct of counters with their names and docs.
macro_rules! counters {
    ($(#[$about:meta])* $Name:ident { $(#[doc = $doc:literal] $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $Name { $(#[doc = $doc] pub $field: u64,)* }

        impl $Name {
            /// Name, description and value of each counter, in the order of declaration.
            pub fn rows(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($field), $doc.trim_ascii(), self.$field)),*]
            }

            /// The difference to `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field - earlier.$field),* }
            }
        }
    };
}

counters! {
    /// Events of a whole run, all cores together.
    Counters {
        /// Instructions that cores issued: accesses, flushes, fences, and the work between them.
        instructions,
        /// Loads, stores and locked operations of the program, each of up to 8 bytes.
        references,
        /// Loads of the program.
        loads,
        /// Stores of the program.
        stores,
        /// Locked operations of the program.
        locked,
        /// Compare-exchanges among them that found another value and stored nothing.
        locked_failed,
        /// Lines that a core's second level gave to the first.
        l2_hits,
        /// Lines that a core asked of the shared cache.
        l1_misses,
        /// Lines that the shared cache asked of memory.
        llc_misses,
        /// Lines that the shared cache fetched from memory before they were asked for.
        prefetched_lines,
        /// Lines that one core's cache gave to another's.
        cache_to_cache,
        /// Lines written to memory, for whatever reason.
        line_writes,
        /// Non-temporal stores of the program, of its stores.
        stores_nt,
        /// Lines that left a write-combining buffer.
        combined_lines,
        /// Lines that left a write-combining buffer with fewer than 64 bytes written.
        partial_lines,
        /// Flush instructions that found a dirty line.
        flushes,
        /// Fences and persist barriers that took effect.
        fences,
        /// Strands that began behind others.
        strands,
        /// Epochs that became durable.
        epochs,
        /// Epochs that had to be flushed because of a conflict before they were durable.
        epochs_conflicting,
        /// Accesses that hit another thread's epoch that was not durable.
        conflicts_inter,
        /// Stores to a line that the same thread wrote in an older epoch that was not durable.
        conflicts_intra,
        /// Victims of the shared cache whose older epochs were not durable.
        conflicts_replacement,
        /// Open epochs that were split because another thread depended on them.
        epoch_splits,
        /// Inter-thread dependences kept in registers instead of waited for.
        dependences,
        /// Dependences that found no free register pair and were waited for.
        register_overflows,
        /// Old lines that hardware wrote to its undo log.
        log_lines,
        /// Records of the undo log: headers, and as many lines as they name before them.
        log_records,
        /// Lines of processor state that hardware wrote at the ends of epochs.
        state_lines,
        /// Epochs closed early because the undo log was full.
        log_overflows,
        /// Stores that took an entry of a persist buffer.
        buffered_stores,
        /// Stores that joined an entry of a persist buffer that was there.
        merged_stores,
        /// Loads and fetches of a line that waited until a persist buffer had written it.
        buffered_misses,
        /// Flushes that left a persist buffer before all that has to be durable before them.
        early_flushes,
        /// Old lines that controllers read from memory to undo an early flush after a crash.
        undo_records,
        /// Early flushes that controllers kept back, as an older one to the line could be undone.
        delay_records,
        /// Early flushes that controllers refused, as their recovery tables were full.
        refused_flushes,
        /// Lines of copies, or parts of them, that programs let hardware relocate.
        relocated_lines,
        /// Writes of such lines whose page the reached buffer of their controller had.
        reached_hits,
        /// Writes of such lines whose page the reached buffer of their controller had not.
        reached_misses,
        /// Lookups of where an object goes.
        checklookups,
        /// Bloom filters that cores loaded for lookups.
        filter_loads,
        /// Lookups that passed their filter and found their page in the core's PMFTLB.
        pmftlb_hits,
        /// Lookups that passed their filter and had to read the pool.
        pmftlb_misses,
        /// Dirty persistent lines that the shared cache dropped, as persist buffers write them.
        dropped_lines,
        /// XPLines of 256 bytes read from the media of Optane-like DIMMs.
        xplines_read,
        /// XPLines of 256 bytes written to the media of Optane-like DIMMs.
        xplines_written,
        /// Blocks of Optane-like DIMMs that were moved to level the wear.
        blocks_moved,
        /// Flits times links: the traffic of the mesh.
        flit_hops,
    }
}

impl Counters {
    /// Stores of the program that took effect, those of locked operations too.
    pub fn written(&self) -> u64 {
        self.stores + self.locked - self.locked_failed
    }
}

/// Why a core stalls. Every stalled cycle has exactly one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Reason {
    /// A load that the core's second level answered.
    LoadL2,
    /// A load that the shared cache answered.
    LoadLlc,
    /// A load that another core's cache answered, or that waited for one to finish.
    LoadRemote,
    /// A load that memory answered.
    LoadMemory,
    /// Store buffer full or drained behind a store that misses.
    StoreMiss,
    /// Store buffer full or drained behind ordinary stores.
    StoreBuffer,
    /// A non-temporal store, or an access that it must precede, waits for the write-combining
    /// buffer.
    WriteCombining,
    /// A locked operation fetching its line.
    Locked,
    /// Waiting for another thread, as on a lock.
    Lock,
    /// A fence or barrier waiting for durability.
    Fence,
    /// A flush waiting until an earlier one of its core is done.
    FlushesFull,
    /// A store waiting until the store before it is durable (strict persistency).
    WriteThrough,
    /// A store waiting for an older epoch of its own thread.
    IntraConflict,
    /// An access waiting for another thread's epoch.
    InterConflict,
    /// A fill waiting for a victim's epochs, or for an older version of a line to become durable.
    Replacement,
    /// A barrier waiting for a free epoch number.
    EpochIds,
    /// A store waiting for room in the hardware's undo log.
    Log,
    /// A store waiting for an entry of the persist buffer.
    BufferFull,
    /// A fetch waiting until a persist buffer has written the line.
    BufferedLine,
    /// Waiting for the new address of an object.
    Forwarding,
    /// Finished, while other cores still run.
    Idle,
}

impl Reason {
    /// All reasons, in the order in which tables and stacked bars show them.
    pub const ALL: [Reason; 21] = [
        Reason::LoadL2,
        Reason::LoadLlc,
        Reason::LoadRemote,
        Reason::LoadMemory,
        Reason::StoreMiss,
        Reason::StoreBuffer,
        Reason::WriteCombining,
        Reason::Locked,
        Reason::Lock,
        Reason::Fence,
        Reason::FlushesFull,
        Reason::WriteThrough,
        Reason::IntraConflict,
        Reason::InterConflict,
        Reason::Replacement,
        Reason::EpochIds,
        Reason::Log,
        Reason::BufferFull,
        Reason::BufferedLine,
        Reason::Forwarding,
        Reason::Idle,
    ];

    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Reason::LoadL2 => "load_l2",
            Reason::LoadLlc => "load_llc",
            Reason::LoadRemote => "load_remote",
            Reason::LoadMemory => "load_memory",
            Reason::StoreMiss => "store_miss",
            Reason::StoreBuffer => "store_buffer",
            Reason::WriteCombining => "write_combining",
            Reason::Locked => "locked",
            Reason::Lock => "lock",
            Reason::Fence => "fence",
            Reason::FlushesFull => "flushes_full",
            Reason::WriteThrough => "write_through",
            Reason::IntraConflict => "intra_conflict",
            Reason::InterConflict => "inter_conflict",
            Reason::Replacement => "replacement",
            Reason::EpochIds => "epoch_ids",
            Reason::Log => "log",
            Reason::BufferFull => "buffer_full",
            Reason::BufferedLine => "buffered_line",
            Reason::Forwarding => "forwarding",
            Reason::Idle => "idle",
        }
    }

    /// True for a request that waits for an epoch that is not durable.
    pub fn is_conflict(self) -> bool {
        matches!(self, Reason::IntraConflict | Reason::InterConflict | Reason::Replacement)
    }

    /// True for the reasons that only persistency causes.
    pub fn is_persistency(self) -> bool {
        matches!(
            self,
            Reason::Fence
                | Reason::FlushesFull
                | Reason::WriteThrough
                | Reason::IntraConflict
                | Reason::InterConflict
                | Reason::Replacement
                | Reason::EpochIds
                | Reason::Log
                | Reason::BufferFull
                | Reason::BufferedLine
        )
    }
}

/// Stalled cycles of one core, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls(pub [u64; Reason::ALL.len()]);

impl Stalls {
    /// Adds `cycles` to `reason`.
    #[inline]
    pub fn add(&mut self, reason: Reason, cycles: u64) {
        self.0[reason as usize] += cycles;
    }

    /// Cycles stalled for `reason`.
    pub fn get(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// The difference to `earlier`.
    #[must_use]
    pub(crate) fn since(&self, earlier: &Stalls) -> Stalls {
        Stalls(std::array::from_fn(|at| self.0[at].saturating_sub(earlier.0[at])))
    }

    /// Takes what exceeds `total` off the reasons with the most cycles.
    pub(crate) fn trim(&mut self, total: u64) {
        let mut excess = self.total().saturating_sub(total);
        while excess > 0 {
            let most = self.0.iter_mut().max().expect("there are reasons");
            let less = excess.min(*most);
            *most -= less;
            excess -= less;
        }
    }

    /// All stalled cycles.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_reasons_is_in_the_order_of_their_numbers() {
        for (at, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, at, "{}", reason.name());
        }
    }

    #[test]
    fn a_counter_shows_its_doc_and_its_difference() {
        let now = Counters { loads: 5, ..Counters::default() };
        let then = Counters { loads: 2, ..Counters::default() };
        let rows = now.since(&then).rows();
        assert!(rows.contains(&("loads", "Loads of the program.", 3)));
    }
}
