//! A capability of the eBPF backend: an object, and what it adds to a sample.

use super::block::Block;
use super::exact_cpu::ExactCpu;
use super::health;
use super::kernel::Kernel;
use super::life::Life;
use super::object::{Fallback, Object};
use super::run_queue::RunQueue;
use super::signal::Signal;
use super::socket::Socket;
use super::tcp::Tcp;
use super::tcp_dump::TcpDump;
use monitor_backend::Error;
use monitor_model::id::Ns;
use monitor_model::probe::Probe;
use monitor_model::sample::{Process, Sample};
use monitor_model::want::Capability;
use std::os::fd::BorrowedFd;

/// What adds something to the processes of a snapshot: an object, as a rule.
pub trait Part: Send {
    /// The loaded object, for its health; none where no program serves it.
    fn object(&self) -> Option<&Object>;

    /// The same, to let its programs speak.
    fn object_mut(&mut self) -> Option<&mut Object>;

    /// Adds what it knows. The processes are in the order of identities and stay so; ended ones
    /// are among them once the lifetimes have been joined, which is first.
    fn join(&mut self, sample: &mut Sample);

    /// The same for a few processes that were read alone: only what belongs to fields that the
    /// kernel keeps too.
    fn complete(&mut self, _: &mut [Process]) {}

    /// Becomes readable when records should be fetched before the next reading.
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Fetches records that wait.
    fn drain(&mut self) {}

    /// Why it is not served by the best way, if so.
    fn fallback(&self) -> Option<&Fallback> {
        self.object()?.fallback()
    }

    /// How it serves one of its capabilities.
    fn probe(&self, capability: Capability) -> Probe {
        let Some(object) = self.object() else { return Probe::off(capability) };
        health::probe(capability, object, self.dropped())
    }

    /// Records dropped in user space.
    fn dropped(&self) -> u64 {
        0
    }
}

/// Loads and attaches a part.
type Load = fn(&Kernel, &Asked<'_>) -> Result<Box<dyn Part>, Error>;

/// How to load a part, and the capabilities that it serves.
pub struct Loader {
    /// What it serves; it is loaded if one of them is asked for.
    pub serves: &'static [Capability],
    /// Loads and attaches what the given capabilities need.
    pub load: Load,
}

impl Loader {
    /// Whether one of these capabilities needs it.
    pub fn needed(&self, capabilities: &[Capability]) -> bool {
        self.serves.iter().any(|serves| capabilities.contains(serves))
    }
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
        serves: &[Capability::Tcp],
        load: |kernel, asked| match Tcp::load(kernel, asked.since) {
            Ok(tcp) => Ok(Box::new(tcp)),
            Err(refused) => Ok(Box::new(TcpDump::open(refused, asked.since)?)),
        },
    },
    Loader {
        serves: &[Capability::Sockets],
        load: |kernel, asked| Ok(Box::new(Socket::load(kernel, asked.since)?)),
    },
    Loader {
        serves: &[Capability::Signals],
        load: |kernel, _| Ok(Box::new(Signal::load(kernel)?)),
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
