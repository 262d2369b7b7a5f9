//! The handles that a thread of a run may have, as one type.
//!
//! To choose between them takes a call and some branches at each access: up to 4 % of the time of
//! an exploration, 1 or 2 % of that of a simulation. Runs of the host whose speed is measured do
//! without, with a Ribbon or with nothing around their memory.

use accounted::Accounted;
use seawall_explore::{CrashImage, Traced};
use seawall_memory::layer::{self, Either};
use seawall_memory::{Addr, Fence, Image, LINE_BYTES, Memory, Width};
use seawall_native::NativeMemory;
use seawall_ribbon::{DirtinessMemory, RibbonMemory};
use seawall_sim::SimMemory;
use watched::Watched;

pub(crate) mod accounted;
pub(crate) mod watched;

/// A machine's own handle, or one with something around it.
pub struct AnyMemory<'m, 'a>(Kinds<'m, 'a>);

/// A thread of the host that leaves its flushes to others.
pub type NativeRibbon<'m, 'a> = RibbonMemory<'m, Box<NativeMemory<'a>>>;

type Kinds<'m, 'a> = Either<Checked<'m, 'a>, Either<Simulated<'m, 'a>, Native<'m, 'a>>>;
type Checked<'m, 'a> = Either<&'m CrashImage, Either<Numbered<'m>, &'m Traced<'a>>>;
type Simulated<'m, 'a> = Either<Sim<'m, 'a>, Observed<'m, 'a>>;
type Sim<'m, 'a> = Called<&'m SimMemory<'a>>;
type Observed<'m, 'a> = Either<
    Called<RibbonMemory<'m, &'m SimMemory<'a>>>,
    Either<Called<Watched<'m, SimMemory<'a>>>, Called<Accounted<'m, SimMemory<'a>>>>,
>;
type Native<'m, 'a> = Either<&'m NativeMemory<'a>, Around<'m, 'a>>;
type Around<'m, 'a> =
    Either<Called<NativeRibbon<'m, 'a>>, Called<DirtinessMemory<'m, NativeMemory<'a>>>>;

/// A memory whose words are reached by calls, so that it costs nothing where another one is chosen.
pub struct Called<M>(M);

impl<M: Memory> layer::Layer for Called<M> {
    type Below = M;

    #[inline]
    fn below(&self) -> &M {
        &self.0
    }

    #[inline(never)]
    #[track_caller]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.0.load_bits(at, width)
    }

    #[inline(never)]
    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.0.store_bits(at, width, value);
    }
}

/// One of the threads that take turns on the simplest machine.
pub struct Numbered<'m> {
    image: &'m Image,
    thread: usize,
}

impl layer::Layer for Numbered<'_> {
    type Below = Image;

    #[inline]
    fn below(&self) -> &Image {
        self.image
    }

    fn thread(&self) -> usize {
        self.thread
    }
}

impl<'m, 'a> AnyMemory<'m, 'a> {
    /// A simulated core.
    pub fn simulated(memory: &'m SimMemory<'a>) -> Self {
        AnyMemory(Either::Right(Either::Left(Either::Left(Called(memory)))))
    }

    /// A simulated core that leaves its flushes to others.
    pub fn simulated_ribbon(memory: RibbonMemory<'m, &'m SimMemory<'a>>) -> Self {
        AnyMemory::observed(Either::Left(Called(memory)))
    }

    /// A simulated core whose accesses are counted.
    pub fn watched(memory: Watched<'m, SimMemory<'a>>) -> Self {
        AnyMemory::observed(Either::Right(Either::Left(Called(memory))))
    }

    /// A simulated core whose time is accounted for.
    pub fn accounted(memory: Accounted<'m, SimMemory<'a>>) -> Self {
        AnyMemory::observed(Either::Right(Either::Right(Called(memory))))
    }

    fn observed(memory: Observed<'m, 'a>) -> Self {
        AnyMemory(Either::Right(Either::Left(Either::Right(memory))))
    }

    /// The only thread of the simplest machine.
    pub fn image(image: &'m Image) -> Self {
        AnyMemory::image_in_turns(image, 0)
    }

    /// One of the threads that take turns on the simplest machine.
    pub fn image_in_turns(image: &'m Image, thread: usize) -> Self {
        AnyMemory(Either::Left(Either::Right(Either::Left(Numbered { image, thread }))))
    }

    /// A thread of a run that is recorded.
    pub fn traced(memory: &'m Traced<'a>) -> Self {
        AnyMemory(Either::Left(Either::Right(Either::Right(memory))))
    }

    /// What a crash of a recorded run may have left.
    pub fn crashed(image: &'m CrashImage) -> Self {
        AnyMemory(Either::Left(Either::Left(image)))
    }

    /// A thread of the host.
    pub fn native(memory: &'m NativeMemory<'a>) -> Self {
        AnyMemory(Either::Right(Either::Right(Either::Left(memory))))
    }

    /// A thread of the host that leaves its flushes to others.
    pub fn native_ribbon(memory: NativeRibbon<'m, 'a>) -> Self {
        AnyMemory::around(Either::Left(Called(memory)))
    }

    /// A thread of the host whose dirty bytes are counted.
    pub fn dirtiness(memory: DirtinessMemory<'m, NativeMemory<'a>>) -> Self {
        AnyMemory::around(Either::Right(Called(memory)))
    }

    fn around(memory: Around<'m, 'a>) -> Self {
        AnyMemory(Either::Right(Either::Right(Either::Right(memory))))
    }

    #[inline(never)]
    #[track_caller]
    fn load_word(&self, at: Addr) -> u64 {
        self.0.load_bits(at, Width::B8)
    }

    #[inline(never)]
    #[track_caller]
    fn load_part(&self, at: Addr, width: Width) -> u64 {
        self.0.load_bits(at, width)
    }

    #[inline(never)]
    #[track_caller]
    fn store_word(&self, at: Addr, value: u64) {
        self.0.store_bits(at, Width::B8, value);
    }

    #[inline(never)]
    #[track_caller]
    fn store_part(&self, at: Addr, width: Width, value: u64) {
        self.0.store_bits(at, width, value);
    }
}

/// What programs do most is called, and not compiled into them at each place: there it would be
/// that of all handles. Words have functions of their own, as nearly all accesses are to words.
impl<'m, 'a> layer::Layer for AnyMemory<'m, 'a> {
    type Below = Kinds<'m, 'a>;

    #[inline]
    fn below(&self) -> &Kinds<'m, 'a> {
        &self.0
    }

    #[inline]
    #[track_caller]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        match width {
            Width::B8 => self.load_word(at),
            _ => self.load_part(at, width),
        }
    }

    #[inline]
    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        match width {
            Width::B8 => self.store_word(at, value),
            _ => self.store_part(at, width, value),
        }
    }

    #[inline(never)]
    #[track_caller]
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.0.compare_exchange(at, current, new)
    }

    #[inline(never)]
    #[track_caller]
    fn flush(&self, at: Addr, len: u64) {
        self.0.flush(at, len);
    }

    #[inline(never)]
    #[track_caller]
    fn fence(&self, fence: Fence) {
        self.0.fence(fence);
    }

    #[inline(never)]
    fn work(&self, instructions: u32) {
        self.0.work(instructions);
    }

    #[inline(never)]
    #[track_caller]
    fn load_line(&self, at: Addr) -> [u64; LINE_BYTES as usize / 8] {
        self.0.load_line(at)
    }

    #[inline(never)]
    #[track_caller]
    fn read(&self, at: Addr, into: &mut [u8]) {
        self.0.read(at, into);
    }

    #[inline(never)]
    #[track_caller]
    fn write(&self, at: Addr, from: &[u8]) {
        self.0.write(at, from);
    }
}
