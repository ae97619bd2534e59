//! The thread that reads: one reading for all who are due, each of whom looks at it.
//!
//! In: views. Out: the same views, with what they saw. A slow reading delays those who wait for
//! it and nobody else, because calls are answered by another thread.

use super::desk::{self, Desk, Ends, Filed, Told};
use crate::backend::{Backend, Error};
use crate::engine::Look;
use crate::meter::census::Census;
use crate::meter::view::{Past, Reading};
use crate::model::field::ProcessField;
use crate::model::sample::{Node, Note, Sample};
use crate::model::status::{Refusal, Status};
use crate::model::want::{Capability, Devices, Want};
use crate::sys::readable;
use std::thread::JoinHandle;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Work for the thread.
pub struct Work {
    /// Who is due.
    pub looks: Vec<Look>,
    /// What must be attached, for them and for all others.
    pub capabilities: Vec<Capability>,
}

/// The thread's two ends.
pub struct Sampler {
    /// Work goes in here. There is never more than one piece of it.
    pub work: UnboundedSender<Work>,
    /// And comes back here.
    pub done: UnboundedReceiver<Vec<Look>>,
    /// Claims of ranks, and what is told of ranks.
    pub ranks: Ends,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts the thread with a backend of its own.
    pub fn start(backend: Box<dyn Backend>, opening: Vec<Note>) -> std::io::Result<Self> {
        let (work, queue) = unbounded_channel();
        let (back, done) = unbounded_channel();
        let (ranks, desk) = desk::pair();
        let (past, census) = (Past::default(), Census::default());
        let reader = Reader { backend, opening, past, census, desk };
        let thread = std::thread::Builder::new().name("sampler".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
            match runtime {
                Ok(runtime) => runtime.block_on(reader.run(queue, back)),
                Err(error) => tracing::error!("cannot start the thread that reads: {error}"),
            }
        })?;
        Ok(Self { work, done, ranks, thread: Some(thread) })
    }

    /// Ends the thread; what is attached is detached.
    pub fn stop(mut self) {
        let (closed, _) = unbounded_channel();
        self.work = closed;
        if let Some(thread) = self.thread.take() {
            // A panic there was told as it happened.
            let _ = thread.join();
        }
    }
}

/// The node, read in one of the ways in which it is wanted, and the notes on it.
type NodeRead = (Want, (Option<Node>, Vec<Note>));

struct Reader {
    backend: Box<dyn Backend>,
    opening: Vec<Note>,
    past: Past,
    census: Census,
    desk: Desk,
}

impl Reader {
    async fn run(mut self, mut queue: UnboundedReceiver<Work>, back: UnboundedSender<Vec<Look>>) {
        let own = self.backend.wake().and_then(|fd| fd.try_clone_to_owned().ok());
        let wake = own.and_then(|fd| readable::readable(fd).ok());
        loop {
            tokio::select! {
                work = queue.recv() => match work {
                    Some(work) => {
                        let looks = self.work(work);
                        if back.send(looks).is_err() {
                            return;
                        }
                    }
                    None => return,
                },
                Some(claim) = self.desk.claims.recv() => self.settle(claim),
                () = records(wake.as_ref()) => self.backend.drain(),
            }
        }
    }

    fn work(&mut self, work: Work) -> Vec<Look> {
        self.backend.attach(&work.capabilities);
        // The kernel walks page tables for PSS: those who want it do not make others pay.
        let costly = |look: &Look| look.view.want().wants(ProcessField::Pss);
        let (costly, mut looks): (Vec<_>, Vec<_>) = work.looks.into_iter().partition(costly);
        self.round(&mut looks);
        for look in costly {
            let mut one = [look];
            self.round(&mut one);
            looks.extend(one);
        }
        looks
    }

    /// One reading, and everybody's look at it.
    fn round(&mut self, looks: &mut [Look]) {
        if looks.is_empty() {
            return;
        }
        let mut nodes: Vec<NodeRead> = Vec::new();
        let read = self.read(looks, &mut nodes);
        for look in looks {
            let seen = match &read {
                Ok(sample) => {
                    let want = node_want(look.view.want());
                    let node = nodes.iter().find(|(it, _)| same(it, &want)).map(|(_, node)| node);
                    let reading =
                        Reading { sample, node, past: &self.past, namespaces: &self.census };
                    look.view.see(&reading, &mut *self.backend)
                }
                Err(error) => Err(refusal(error)),
            };
            look.seen = Some(seen);
        }
    }

    /// Takes in the claims that wait, with one reading.
    fn settle(&mut self, first: Filed) {
        let claims = self.desk.all(first);
        let read = self.everybody(&Want { processes: true, ..Want::default() });
        for (key, claim) in claims {
            let settled = match &read {
                Ok(sample) => self.census.settle(&claim, sample),
                Err(error) => Err(refusal(error)),
            };
            self.desk.tell(Told::Settled(key, settled));
        }
        self.desk.announce(&mut self.census);
    }

    /// Reads all processes, and learns what is learned of all.
    fn everybody(&mut self, want: &Want) -> Result<Sample, Error> {
        let mut read = self.backend.read(want)?;
        self.census.learn(&mut read, want, &mut *self.backend);
        self.desk.announce(&mut self.census);
        self.past.take_from(&mut read);
        Ok(read)
    }

    /// Reads processes once, and the node once for each way in which it is wanted.
    fn read(&mut self, looks: &[Look], nodes: &mut Vec<NodeRead>) -> Result<Sample, Error> {
        let wants = || looks.iter().map(|look| look.view.want());
        let mut sample = None;
        if wants().any(|want| want.processes) {
            sample = Some(self.everybody(&union(wants()))?);
        }
        for want in wants().map(node_want).filter(reads_node) {
            if nodes.iter().any(|(it, _)| same(it, &want)) {
                continue;
            }
            let mut read = self.backend.read(&want)?;
            nodes.push((want, (read.node_stats.take(), std::mem::take(&mut read.notes))));
            sample.get_or_insert(read);
        }
        let mut sample = match sample {
            Some(sample) => sample,
            None => self.backend.read(&Want::default())?,
        };
        sample.notes.splice(..0, self.opening.iter().cloned());
        Ok(sample)
    }
}

/// What must be read for all of them.
fn union<'a>(wants: impl Iterator<Item = &'a Want>) -> Want {
    let mut all = Want::default();
    for want in wants.filter(|want| want.processes) {
        all.processes = true;
        all.threads |= want.threads;
        for &field in &want.costly {
            if !all.costly.contains(&field) {
                all.costly.push(field);
            }
        }
    }
    all
}

/// What of a want is of the node.
fn node_want(want: &Want) -> Want {
    Want { node: want.node, disks: want.disks.clone(), nets: want.nets.clone(), ..Want::default() }
}

fn reads_node(want: &Want) -> bool {
    want.node || want.disks != Devices::None || want.nets != Devices::None
}

fn same(a: &Want, b: &Want) -> bool {
    (a.node, &a.disks, &a.nets) == (b.node, &b.disks, &b.nets)
}

/// A reading that failed, as a client is told.
fn refusal(error: &Error) -> Refusal {
    let status = match error {
        Error::Denied { .. } => Status::NoPermissions,
        Error::Unsupported { .. } => Status::NotSupported,
        Error::Kernel { .. } | Error::Malformed { .. } => Status::Error,
    };
    Refusal::new(status, error.to_string())
}

/// Waits for records; for ever, where there is no ring buffer.
async fn records(wake: Option<&AsyncFd<std::os::fd::OwnedFd>>) {
    let Some(wake) = wake else { return std::future::pending().await };
    if let Ok(mut ready) = wake.readable().await {
        ready.clear_ready();
    }
}
