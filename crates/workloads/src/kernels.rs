//! The parallel programs, one file each, and the table of them.
//!
//! They are written for this project and share only the sharing patterns of the programs of
//! SPLASH-2, PARSEC and STAMP with the same names, which MICRO'15 runs unannotated. To add a
//! kernel, write its file and its line in the table below.
//!
//! ```
//! use seawall_memory::Image;
//! use seawall_workloads::kernels::Radix;
//! use seawall_workloads::{Input, Kernel};
//!
//! let input = Input { size: 100, ..Input::of::<Radix>(1) };
//! let layout = Radix::layout(&input);
//! let memory = Image::new(layout.pm_bytes, layout.dram_bytes);
//! let radix = Radix::create(&memory, &input);
//! assert!(radix.check(&memory).is_err());
//! radix.run(&memory);
//! radix.check(&memory).unwrap();
//! ```

use crate::{Checkpointed, Kernel};

pub(crate) mod checkpoint;
mod forest;
pub(crate) mod sync;

/// A kernel in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The unit of its size.
    pub unit: &'static str,
    /// Its default size.
    pub size: u64,
    /// A size for a quick run.
    pub quick: u64,
    /// A size for tests, a fraction of a second.
    pub small: u64,
    /// The valid sizes.
    pub sizes: std::ops::RangeInclusive<u64>,
}

impl KernelEntry {
    const fn of<K: Kernel>() -> KernelEntry {
        KernelEntry {
            name: K::NAME,
            about: K::ABOUT,
            unit: K::UNIT,
            size: K::SIZE,
            quick: K::QUICK,
            small: K::SMALL,
            sizes: K::SIZES,
        }
    }
}

/// A generic function over kernel types.
pub trait KernelVisitor {
    /// The type of its result.
    type Output;
    /// Runs with kernel `K`.
    fn visit<K: Kernel>(self) -> Self::Output;
}

/// No kernel has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kernel `{name}`; the kernels are {}", names())]
pub struct UnknownKernel {
    /// The name that was given.
    pub name: String,
}

fn names() -> String {
    let all = KERNELS.iter().chain(CHECKPOINTED);
    all.map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

macro_rules! kernels {
    (
        plain { $($module:ident :: $Type:ident;)* }
        checkpointed { $($Phased:ident;)* }
    ) => {
        $(mod $module; pub use $module::$Type;)*

        /// Every kernel, in the order in which tables show them.
        pub const KERNELS: &[KernelEntry] = &[$(KernelEntry::of::<$Type>()),*];

        /// Kernels with checkpoints, which run only when named. They flush and drain, unlike the
        /// other kernels.
        pub const CHECKPOINTED: &[KernelEntry] =
            &[$(KernelEntry::of::<Checkpointed<$Phased>>()),*];

        /// Calls `visitor` with the kernel `name`.
        ///
        /// # Errors
        /// If no kernel has this name; the message lists the known names.
        pub fn with_kernel<V: KernelVisitor>(
            name: &str,
            visitor: V,
        ) -> Result<V::Output, UnknownKernel> {
            match name {
                $($Type::NAME => Ok(visitor.visit::<$Type>()),)*
                _ => with_checkpointed(name, visitor),
            }
        }

        /// As `with_kernel`, for kernels with checkpoints.
        ///
        /// # Errors
        /// If no such kernel has this name; the message lists all kernels.
        pub fn with_checkpointed<V: KernelVisitor>(
            name: &str,
            visitor: V,
        ) -> Result<V::Output, UnknownKernel> {
            match name {
                $(<Checkpointed<$Phased>>::NAME => {
                    Ok(visitor.visit::<Checkpointed<$Phased>>())
                })*
                _ => Err(UnknownKernel { name: name.to_owned() }),
            }
        }
    };
}

kernels! {
    plain {
    ssca2::Ssca2;
    vacation::Vacation;
    intruder::Intruder;
    canneal::Canneal;
    dedup::Dedup;
    freqmine::Freqmine;
    barnes::Barnes;
    lu::Lu;
    radix::Radix;
    ocean::Ocean;
    }
    checkpointed {
        Lu;
        Radix;
        Ocean;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Name;

    impl KernelVisitor for Name {
        type Output = &'static str;
        fn visit<K: Kernel>(self) -> &'static str {
            K::NAME
        }
    }

    #[test]
    fn every_kernel_of_the_table_is_visited_by_its_name() {
        for entry in KERNELS.iter().chain(CHECKPOINTED) {
            assert_eq!(with_kernel(entry.name, Name), Ok(entry.name));
            assert!(entry.sizes.contains(&entry.size), "{}", entry.name);
            assert!(entry.small < entry.quick && entry.quick < entry.size, "{}", entry.name);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let message = with_kernel("raddix", Name).unwrap_err().to_string();
        assert!(message.contains("`raddix`") && message.contains("ssca2, vacation"), "{message}");
    }
}
