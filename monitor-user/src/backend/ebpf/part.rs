//! A capability of the eBPF backend: an object, and what it adds to a sample.

use super::block::Block;
use super::exact_cpu::ExactCpu;
use super::kernel::Kernel;
use super::life::Life;
use super::object::Object;
use super::run_queue::RunQueue;
use crate::backend::Error;
use crate::model::id::Ns;
use crate::model::sample::Process;
use crate::model::want::Capability;
use std::os::fd::BorrowedFd;

/// An object that adds something to the processes of a snapshot.
pub trait Part: Send {
    /// The loaded object, for its health.
    fn object(&self) -> &Object;

    /// Adds what it knows. The list is in the order of identities and stays so; ended processes
    /// are in it once the lifetimes have been joined, which is first.
    fn join(&mut self, processes: &mut Vec<Process>);

    /// Becomes readable when records should be fetched before the next reading.
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Fetches records that wait.
    fn drain(&mut self) {}

    /// Events seen since it was attached.
    fn events(&self) -> u64 {
        self.object().loss().events
    }

    /// Records dropped in user space.
    fn dropped(&self) -> u64 {
        0
    }
}

/// How to load a part, and the capabilities that it serves.
pub struct Loader {
    /// What it serves; it is loaded if one of them is asked for.
    pub serves: &'static [Capability],
    /// Loads and attaches what the given capabilities need.
    pub load: fn(&Kernel, &Asked<'_>) -> Result<Box<dyn Part>, Error>,
}

/// What is asked of a part.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// All capabilities that are asked for, of this part or of others.
    pub capabilities: &'a [Capability],
    /// When counting begins.
    pub since: Ns,
}

/// Every part, in the order in which they are joined.
pub const LOADERS: &[Loader] = &[
    Loader {
        serves: &[Capability::Lifetimes],
        load: |kernel, _| Ok(Box::new(Life::load(kernel)?)),
    },
    Loader {
        serves: &[Capability::Block, Capability::WriteBack],
        load: |kernel, asked| Ok(Box::new(Block::load(kernel, asked)?)),
    },
    Loader {
        serves: &[Capability::RunQueue],
        load: |kernel, asked| Ok(Box::new(RunQueue::load(kernel, asked)?)),
    },
    Loader {
        serves: &[Capability::ExactCpu],
        load: |kernel, asked| Ok(Box::new(ExactCpu::load(kernel, asked)?)),
    },
];
