//! The persistency models by name: what a machine promises about a crash.
//!
//! A simulated design states the model that it keeps; the explorer defines each model so that a
//! program can be held to it (`crates/explore/src/models`).

use core::fmt;
use core::str::FromStr;

macro_rules! models {
    ($($(#[$doc:meta])* $Name:ident = $name:literal, order_is_durable: $durable:literal,
       orders_all_stores: $all:literal, buffers_stores: $buffers:literal,
       orders_loads: $loads:literal, $about:literal;)*) => {
        /// A persistency model.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
        pub enum Model {
            $($(#[$doc])* $Name,)*
        }

        impl Model {
            /// All models, in the order of tables.
            pub fn all() -> impl Iterator<Item = Model> {
                [$(Model::$Name),*].into_iter()
            }

            /// The name on the command line, in tables and in JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Model::$Name => $name,)*
                }
            }

            /// The model in one line.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Model::$Name => $about,)*
                }
            }

            /// Whether a crash can show the order of any two stores. An exploration must then
            /// interrupt threads at every store, and try a crash after each.
            pub const fn orders_all_stores(self) -> bool {
                match self {
                    $(Model::$Name => $all,)*
                }
            }

            /// Whether threads see memory as x86-TSO has it: a load may come before an earlier
            /// store of its thread, and non-temporal stores leave late. Under the other models all
            /// threads see one order of all accesses.
            pub const fn buffers_stores(self) -> bool {
                match self {
                    $(Model::$Name => $buffers,)*
                }
            }

            /// Whether a store persists after what came before an earlier load of its word.
            pub const fn orders_loads(self) -> bool {
                match self {
                    $(Model::$Name => $loads,)*
                }
            }

            /// Whether what a thread ordered before an output survives a crash after the output.
            /// After a drain it does under every model.
            pub const fn order_is_durable(self) -> bool {
                match self {
                    $(Model::$Name => $durable,)*
                }
            }
        }
    };
}

models! {
    /// x86 with `clwb` / `clflushopt`, `clflush`, `sfence` and locked operations: flushed lines
    /// persist by the next fence of the thread that flushed them.
    Px86 = "px86", order_is_durable: true, orders_all_stores: false,
        buffers_stores: true, orders_loads: false,
        "x86: lines persist on their own, flush + fence makes them durable";
    /// Every store is durable before the next one is visible.
    Strict = "strict", order_is_durable: true, orders_all_stores: true,
        buffers_stores: false, orders_loads: false,
        "strict persistency: stores persist one by one, in memory order";
    /// Barriers wait; conflicting accesses of a word persist in order.
    Epoch = "epoch", order_is_durable: true, orders_all_stores: false,
        buffers_stores: false, orders_loads: true,
        "epoch persistency: a barrier waits until its epoch is durable";
    /// Buffered epoch persistency with conflict order, as LB and LB++ keep it.
    Bep = "bep", order_is_durable: false, orders_all_stores: false,
        buffers_stores: false, orders_loads: false,
        "buffered epoch persistency: epochs persist in order, later than they run";
    /// Buffered strict persistency, with or without epochs made by hardware: once the hardware has
    /// recovered, memory is a consistent cut of the run. In bulk mode the saved states of the
    /// processors say where it is.
    Bsp = "bsp", order_is_durable: false, orders_all_stores: false,
        buffers_stores: false, orders_loads: false,
        "buffered strict persistency: any consistent cut of the run, later than it runs";
    /// Persist buffers with `ofence` and `dfence`.
    Hops = "hops", order_is_durable: false, orders_all_stores: false,
        buffers_stores: false, orders_loads: false,
        "persist buffers: ofence orders epochs, dfence waits until they are durable";
    /// Buffered epoch persistency in each strand of a thread; between strands only stores of one
    /// line are ordered, and a drain joins them.
    Strand = "strand", order_is_durable: false, orders_all_stores: false,
        buffers_stores: false, orders_loads: false,
        "strand persistency: barriers order inside a strand, joins and drains all strands";
    /// Caches are in the persistence domain: what was visible survives.
    Eadr = "eadr", order_is_durable: true, orders_all_stores: true,
        buffers_stores: true, orders_loads: false,
        "battery-backed caches: whatever was stored survives";
}

/// No model has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownModel(
    /// The name.
    pub String,
);

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Model::names().join(", ");
        write!(f, "unknown persistency model `{}`; the models are {names}", self.0)
    }
}

impl core::error::Error for UnknownModel {}

impl Model {
    /// The names of all models.
    pub fn names() -> Vec<&'static str> {
        Model::all().map(Model::name).collect()
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<Model, UnknownModel> {
        Model::all().find(|model| model.name() == name).ok_or_else(|| UnknownModel(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_its_name_and_a_wrong_name_lists_the_right_ones() {
        for model in Model::all() {
            assert_eq!(model.name().parse(), Ok(model));
        }
        let wrong = "px87".parse::<Model>().unwrap_err().to_string();
        assert_eq!(
            wrong,
            "unknown persistency model `px87`; the models are px86, strict, epoch, bep, bsp, hops, \
             strand, eadr"
        );
    }
}
