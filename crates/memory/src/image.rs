//! The simplest machine: bytes in this process, no caches, one thread.
//!
//! It serves to build a pool before a simulation, to recover and check the image that a crash left,
//! and as the reference for tests of the other machines.

use crate::relocation::{RELOCATION_PAGE, Relocation, RelocationUnit};
use crate::{Addr, Fence, LINE_BYTES, Memory, MemoryExt, Space, ThreadSlots, Width, lines_of};
use std::cell::{Cell, RefCell};

/// Persistent and volatile bytes; every store is durable at once, fences do nothing. It has a
/// [relocation unit](Memory::relocation), so that defragmentation by hardware can be set up on it
/// and recovered.
#[derive(Clone, Debug)]
pub struct Image {
    pm: RefCell<Vec<u8>>,
    dram: RefCell<Vec<u8>>,
    /// The limit of its growth, in persistent bytes.
    pm_bytes_max: u64,
    relocation: Cell<Option<Relocation>>,
    slots: ThreadSlots,
}

impl Image {
    /// An image of zeros.
    pub fn new(pm_bytes: u64, dram_bytes: u64) -> Image {
        Image::from_pm(vec![0; pm_bytes as usize], dram_bytes)
    }

    /// The image that holds `pm`, with DRAM of zeros: the state after a crash and a restart.
    pub fn from_pm(pm: Vec<u8>, dram_bytes: u64) -> Image {
        let pm_bytes_max = pm.len() as u64;
        let dram = RefCell::new(vec![0; dram_bytes as usize]);
        let (pm, relocation) = (RefCell::new(pm), Cell::new(None));
        Image { pm, dram, pm_bytes_max, relocation, slots: ThreadSlots::new() }
    }

    /// The image, with room to [grow](Space::grow) to `pm_bytes_max` persistent bytes.
    #[must_use]
    pub fn with_room(self, pm_bytes_max: u64) -> Image {
        Image { pm_bytes_max: pm_bytes_max.max(self.pm_bytes()), ..self }
    }

    /// The number of persistent bytes.
    pub fn pm_bytes(&self) -> u64 {
        self.pm.borrow().len() as u64
    }

    /// The limit of its growth, in persistent bytes.
    pub fn pm_bytes_max(&self) -> u64 {
        self.pm_bytes_max
    }

    /// The persistent bytes.
    pub fn into_pm(self) -> Vec<u8> {
        self.pm.into_inner()
    }

    /// The persistent and the volatile bytes.
    pub fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.pm.into_inner(), self.dram.into_inner())
    }

    fn region(&self, at: Addr) -> &RefCell<Vec<u8>> {
        if at.is_pm() { &self.pm } else { &self.dram }
    }

    fn update(&self, at: Addr, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let old = self.load_bits(at, Width::B8);
        if let Some(new) = change(old) {
            self.store_bits(at, Width::B8, new);
        }
        old
    }
}

#[inline]
#[track_caller]
fn place(at: Addr, width: u64, len: usize) -> usize {
    let offset = at.offset();
    if !offset.is_multiple_of(width) || offset + width > len as u64 {
        misplaced(at, width, len);
    }
    offset as usize
}

#[cold]
#[inline(never)]
#[track_caller]
fn misplaced(at: Addr, width: u64, len: usize) -> ! {
    assert!(at.offset().is_multiple_of(width), "{at:?} is not aligned to {width} bytes");
    panic!("{at:?} is outside memory of {len} bytes");
}

/// The bytes from `start` on, which are there: a copy of a length known at compile time.
#[inline]
fn array<const N: usize>(region: &[u8], start: usize) -> [u8; N] {
    region[start..start + N].try_into().expect("so many bytes")
}

impl Memory for Image {
    fn thread(&self) -> usize {
        0
    }

    fn slots(&self) -> Option<&ThreadSlots> {
        Some(&self.slots)
    }

    #[inline]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        let region = self.region(at).borrow();
        let start = place(at, width.bytes(), region.len());
        match width {
            Width::B1 => u64::from(region[start]),
            Width::B2 => u64::from(u16::from_le_bytes(array(&region, start))),
            Width::B4 => u64::from(u32::from_le_bytes(array(&region, start))),
            Width::B8 => u64::from_le_bytes(array(&region, start)),
        }
    }

    #[inline]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        let mut region = self.region(at).borrow_mut();
        let start = place(at, width.bytes(), region.len());
        match width {
            Width::B1 => region[start] = value as u8,
            Width::B2 => region[start..start + 2].copy_from_slice(&(value as u16).to_le_bytes()),
            Width::B4 => region[start..start + 4].copy_from_slice(&(value as u32).to_le_bytes()),
            Width::B8 => region[start..start + 8].copy_from_slice(&value.to_le_bytes()),
        }
    }

    #[inline]
    fn load_line(&self, at: Addr) -> [u64; LINE_BYTES as usize / 8] {
        let region = self.region(at).borrow();
        let start = place(at, LINE_BYTES, region.len());
        std::array::from_fn(|word| u64::from_le_bytes(array(&region, start + 8 * word)))
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let old = self.update(at, |old| (old == current).then_some(new));
        if old == current { Ok(old) } else { Err(old) }
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.update(at, |_| Some(new))
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.update(at, |old| Some(old.wrapping_add(by)))
    }

    fn flush(&self, _: Addr, _: u64) {}
    fn fence(&self, _: Fence) {}
    fn work(&self, _: u32) {}
    fn output(&self, _: u64) {}

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        let now = self.load_bits(at, Width::B8);
        assert_ne!(now, value, "the only thread waits for itself at {at:?}");
        now
    }

    fn space(&self) -> Option<impl Space> {
        Some(self)
    }

    fn relocation(&self) -> Option<impl RelocationUnit> {
        Some(self)
    }
}

impl Space for &Image {
    fn grow(&self, bytes: u64) -> bool {
        if bytes > self.pm_bytes() && bytes <= self.pm_bytes_max {
            self.pm.borrow_mut().resize(bytes as usize, 0);
        }
        bytes <= self.pm_bytes()
    }

    fn will_write(&self, _: Addr, _: u64) {}

    fn discard(&self, at: Addr, len: u64) {
        self.write(at, &vec![0; len as usize]);
    }

    fn bring_back(&self, _: Addr, _: u64) -> bool {
        true
    }

    fn hole(&self, _: Addr, _: u64) -> Option<(Addr, u64)> {
        None
    }
}

/// FFCCD's unit, on which every copy has persisted when it is made.
impl RelocationUnit for &Image {
    fn forwards(&self) -> bool {
        true
    }

    fn set(&self, registers: Option<Relocation>) {
        self.relocation.set(registers);
    }

    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        let mut bytes = vec![0; len as usize];
        self.read(from, &mut bytes);
        self.write(to, &bytes);
        let Some(registers) = self.relocation.get() else { return };
        for line in lines_of(to, len).map(|line| line.start()) {
            if let Some(page) = registers.page_of(line) {
                let reached: u64 = self.load(registers.reached(page));
                let bit = line.offset() % RELOCATION_PAGE / LINE_BYTES;
                self.store(registers.reached(page), reached | 1 << bit);
            }
        }
    }

    fn forward(&self, at: Addr) -> Addr {
        self.relocation.get().map_or(at, |registers| registers.look_up(*self, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back_at_any_alignment(
            offset in 0u64..100, bytes in proptest::collection::vec(any::<u8>(), 0..150),
        ) {
            let image = Image::new(256, 0);
            image.write(Addr::pm(offset), &bytes);
            let mut back = vec![0; bytes.len()];
            image.read(Addr::pm(offset), &mut back);
            prop_assert_eq!(&back, &bytes);
            let whole = image.into_pm();
            let untouched = whole.len() - whole.iter().filter(|byte| **byte != 0).count();
            prop_assert!(untouched >= 256 - bytes.len());
        }
    }

    #[test]
    fn it_grows_with_zeros_as_far_as_there_is_room() {
        let image = Image::new(64, 0);
        assert!(image.grow(64) && !image.grow(65));
        let image = image.with_room(200);
        assert!(image.grow(128) && image.grow(100) && !image.grow(201));
        assert_eq!((image.pm_bytes(), image.load::<u64>(Addr::pm(120))), (128, 0));
    }

    #[test]
    fn locked_operations_return_the_old_value() {
        let image = Image::new(64, 64);
        assert_eq!(image.fetch_add(Addr::dram(8), 5), 0);
        assert_eq!(image.swap(Addr::dram(8), 9), 5);
        assert_eq!(image.compare_exchange(Addr::dram(8), 1, 2), Err(9));
        assert_eq!(image.compare_exchange(Addr::dram(8), 9, 2), Ok(9));
        assert_eq!(image.load::<u64>(Addr::pm(8)), 0);
    }
}
