//! The typed use of a heap, without crashes and with them.

mod changes;
mod crash;
mod reach;
mod threads;
mod types;
mod values;

use seawall_memory::Image;
use seawall_runtime::typed::{self, Branded, Persist, Ptr};
use seawall_runtime::{HeapError, HeapOptions};

pub(crate) const NAME: &str = "typed";

/// The root of most tests here: a stack and an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Persist)]
pub(crate) struct Root<'p> {
    pub(crate) top: Option<Ptr<'p, Node<'p>>>,
    pub(crate) account: Option<Ptr<'p, Account>>,
    pub(crate) count: u32,
    pub(crate) is_busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Persist)]
pub(crate) struct Node<'p> {
    pub(crate) value: u16,
    pub(crate) below: Option<Ptr<'p, Node<'p>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Persist)]
pub(crate) struct Account {
    pub(crate) owner: typed::Bytes<5>,
    pub(crate) balance: i64,
}

pub(crate) fn options<R: Branded>(chunks: u64) -> HeapOptions {
    HeapOptions {
        bytes: chunks << 16,
        bytes_max: chunks << 16,
        threads: 1,
        log_bytes: 16 << 10,
        ..typed::options::<R>()
    }
}

/// A new pool, and its machine afterwards.
pub(crate) fn made<R: Branded>(
    chunks: u64,
    body: impl for<'p> FnOnce(&Image, typed::Pool<'p, R::In<'p>>) -> Result<(), HeapError>,
) -> Image {
    let options = options::<R>(chunks);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let outcome = typed::create::<R, _, _>(&image, NAME, 7, &options, |pool| body(&image, pool));
    assert_eq!(outcome, Ok(()));
    image
}

/// The same pool after a restart.
pub(crate) fn restarted<R: Branded>(image: Image) -> Image {
    Image::from_pm(image.into_pm(), options::<R>(1).dram_bytes().max(1 << 20))
}
