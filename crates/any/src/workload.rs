//! Workloads whose types are forgotten: what runs them is compiled once, and not once for each.
//!
//! An operation is then called through a pointer; the accesses in it are those of the workload,
//! compiled for the memory of the host or for any.

use crate::{AnyMemory, NativeRibbon};
use seawall_memory::Memory;
use seawall_native::{NativeMemory, Pool};
use seawall_runtime::Heap;
use seawall_runtime::defrag::{DefragCounts, DefragError};
use seawall_workloads::{
    BadSetup, Collect, Contents, Cost, Damage, Flaw, Immobile, Layout, RequestMix, Setup,
    UnfitFlaw, UnfitMix, UnknownWorkload, Visitor, Worker, Workload, with_workload,
};
use std::marker::PhantomData;
use std::sync::Arc;

/// The workload `name`.
///
/// # Errors
/// If no workload has this name; the message lists the known names.
pub fn workload(name: &str) -> Result<&'static dyn AnyWorkload, UnknownWorkload> {
    with_workload(name, Find)
}

/// A workload by its type.
pub fn of<W: Workload>() -> &'static dyn AnyWorkload {
    &Of::<W>(PhantomData)
}

struct Find;

impl Visitor for Find {
    type Output = &'static dyn AnyWorkload;

    fn visit<W: Workload>(self) -> Self::Output {
        of::<W>()
    }
}

/// What a [`Workload`] has and does before it is in a pool.
pub trait AnyWorkload: Sync {
    /// See [`Workload::NAME`].
    fn name(&self) -> &'static str;

    /// See [`Setup::of`].
    fn setup(&self, threads: usize) -> Setup;

    /// See [`Setup::check_for`].
    fn check_setup(&self, setup: &Setup) -> Result<(), BadSetup>;

    /// Refuses requests that it cannot answer.
    fn check_mix(&self, mix: Option<RequestMix>) -> Result<(), UnfitMix>;

    /// Refuses defragmentation if its objects cannot move.
    fn check_collect(&self, collect: Collect) -> Result<(), Immobile>;

    /// Refuses costs of transactions that it does not make.
    fn check_cost(&self, cost: Cost) -> Result<(), Immobile>;

    /// Refuses planted bugs that it does not have.
    fn check_flaw(&self, flaw: Flaw) -> Result<(), UnfitFlaw>;

    /// See [`Workload::layout`].
    fn layout(&self, setup: &Setup) -> Layout;

    /// See [`Workload::steps`].
    fn steps(&self, setup: &Setup, thread: usize, phases: u64) -> Option<u64>;

    /// See [`Workload::create`].
    fn create(&self, memory: &AnyMemory<'_, '_>, setup: &Setup) -> Arc<dyn AnyStructure>;

    /// See [`Workload::open_flawed`].
    fn open(
        &self,
        memory: &AnyMemory<'_, '_>,
        layout: Layout,
        flaw: Flaw,
    ) -> Result<Arc<dyn AnyStructure>, Damage>;
}

/// What a [`Workload`] does in a pool.
pub trait AnyStructure: Send + Sync {
    /// See [`Workload::heap`].
    fn heap(&self) -> Option<Heap>;

    /// See [`Workload::again`].
    fn again(&self) -> Arc<dyn AnyStructure>;

    /// See [`Workload::contents`].
    fn contents(&self, memory: &AnyMemory<'_, '_>) -> Result<Contents, Damage>;

    /// See [`Workload::join`].
    fn join<'m>(&'m self, memory: &'m AnyMemory<'_, '_>) -> Box<dyn Joined + 'm>;

    /// The same for the bare memory of the host.
    fn join_native<'m>(&'m self, memory: &'m NativeMemory<'_>) -> Box<dyn Joined + 'm>;

    /// The same for memory of the host whose flushes are left to others.
    fn join_ribbon<'m>(&'m self, memory: &'m NativeRibbon<'_, '_>) -> Box<dyn Joined + 'm>;

    /// See [`Workload::beside_collector`]; the collector has the bare memory of the host.
    fn beside_native_collector(
        &self,
        collector: (&Pool, usize),
        body: &mut dyn FnMut(),
    ) -> Result<DefragCounts, DefragError>;

    /// See [`Workload::beside_collector`]; `handle` makes the collector's memory.
    fn beside_collector<'m>(
        &self,
        handle: &(dyn Fn() -> AnyMemory<'m, 'm> + Sync),
        body: &mut dyn FnMut(),
    ) -> Result<DefragCounts, DefragError>;
}

/// A thread that runs operations.
pub trait Joined {
    /// See [`Workload::step`].
    fn step(&mut self, worker: &mut Worker);

    /// See [`Workload::moved`].
    fn moved(&self) -> DefragCounts;
}

struct Of<W>(PhantomData<fn() -> W>);

impl<W: Workload> AnyWorkload for Of<W> {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn setup(&self, threads: usize) -> Setup {
        Setup::of::<W>(threads)
    }

    fn check_setup(&self, setup: &Setup) -> Result<(), BadSetup> {
        setup.check_for::<W>()
    }

    fn check_mix(&self, mix: Option<RequestMix>) -> Result<(), UnfitMix> {
        mix.map_or(Ok(()), |mix| mix.check_for::<W>())
    }

    fn check_collect(&self, collect: Collect) -> Result<(), Immobile> {
        collect.check_for::<W>()
    }

    fn check_cost(&self, cost: Cost) -> Result<(), Immobile> {
        cost.check_for::<W>()
    }

    fn check_flaw(&self, flaw: Flaw) -> Result<(), UnfitFlaw> {
        flaw.check_for::<W>()
    }

    fn layout(&self, setup: &Setup) -> Layout {
        W::layout(setup)
    }

    fn steps(&self, setup: &Setup, thread: usize, phases: u64) -> Option<u64> {
        W::steps(setup, thread, phases)
    }

    fn create(&self, memory: &AnyMemory<'_, '_>, setup: &Setup) -> Arc<dyn AnyStructure> {
        Arc::new(Structure(W::create(memory, setup)))
    }

    fn open(
        &self,
        memory: &AnyMemory<'_, '_>,
        layout: Layout,
        flaw: Flaw,
    ) -> Result<Arc<dyn AnyStructure>, Damage> {
        Ok(Arc::new(Structure(W::open_flawed(memory, layout, flaw)?)))
    }
}

struct Structure<W>(W);

impl<W: Workload> AnyStructure for Structure<W> {
    fn heap(&self) -> Option<Heap> {
        self.0.heap()
    }

    fn again(&self) -> Arc<dyn AnyStructure> {
        Arc::new(Structure(self.0.again()))
    }

    fn contents(&self, memory: &AnyMemory<'_, '_>) -> Result<Contents, Damage> {
        self.0.contents(memory)
    }

    fn join<'m>(&'m self, memory: &'m AnyMemory<'_, '_>) -> Box<dyn Joined + 'm> {
        Box::new(Thread { workload: &self.0, memory, local: self.0.join(memory) })
    }

    fn join_native<'m>(&'m self, memory: &'m NativeMemory<'_>) -> Box<dyn Joined + 'm> {
        Box::new(Thread { workload: &self.0, memory, local: self.0.join(memory) })
    }

    fn join_ribbon<'m>(&'m self, memory: &'m NativeRibbon<'_, '_>) -> Box<dyn Joined + 'm> {
        Box::new(Thread { workload: &self.0, memory, local: self.0.join(memory) })
    }

    fn beside_native_collector(
        &self,
        (pool, thread): (&Pool, usize),
        body: &mut dyn FnMut(),
    ) -> Result<DefragCounts, DefragError> {
        self.0.beside_collector(|| pool.memory(thread), body).1
    }

    fn beside_collector<'m>(
        &self,
        handle: &(dyn Fn() -> AnyMemory<'m, 'm> + Sync),
        body: &mut dyn FnMut(),
    ) -> Result<DefragCounts, DefragError> {
        self.0.beside_collector(handle, body).1
    }
}

struct Thread<'m, W: Workload, M: Memory> {
    workload: &'m W,
    memory: &'m M,
    local: W::Local<'m, M>,
}

impl<W: Workload, M: Memory> Joined for Thread<'_, W, M> {
    fn step(&mut self, worker: &mut Worker) {
        self.workload.step(self.memory, &mut self.local, worker);
    }

    fn moved(&self) -> DefragCounts {
        W::moved(&self.local)
    }
}
