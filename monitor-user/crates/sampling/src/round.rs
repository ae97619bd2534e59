//! One reading for all who are due, each of whom looks at it.
//!
//! In: views, and what must be attached. Out: what each of them saw. Processes are read once for
//! all, the node once for each way in which it is wanted, and where few processes are all that is
//! looked at, nobody else is read. Owns the backend; knows neither threads nor clocks.

use super::census::{Census, Claim};
use super::eye::Eye;
use super::linger::Linger;
use super::past::Past;
use super::view::{Reading, Seen};
use monitor_backend::{Backend, Error};
use monitor_model::field::ProcessField;
use monitor_model::id::{Ns, Pid};
use monitor_model::request::Rank;
use monitor_model::sample::{Node, Note, Process, Sample};
use monitor_model::status::{Refusal, Status};
use monitor_model::want::{Capability, Devices, Want};

/// How long the records of those who have ended may wait for a reading of everybody.
const TEND: Ns = Ns(10_000_000_000);

/// A view, and what it saw.
pub struct Turn<'a> {
    /// The view.
    pub view: &'a mut Eye,
    /// What it saw, once it has looked.
    pub seen: Option<Result<Seen, Refusal>>,
}

/// Who reads for all.
pub struct Rounds {
    backend: Box<dyn Backend>,
    /// The number of this node.
    node: u32,
    opening: Vec<Note>,
    past: Past,
    census: Census,
    /// What is given up, and the sentence that says so.
    shed: Vec<(Capability, String)>,
    linger: Linger,
    /// Whether it is to be known which ranks are here, whoever looks.
    counted: bool,
    /// When everybody must be read, if nobody asks for it before.
    tend: Option<Ns>,
}

/// The node, read in one of the ways in which it is wanted, and the notes on it.
type NodeRead = (Want, (Option<Node>, Vec<Note>));

impl Rounds {
    /// With the backend of a node of this number, and what is to be said of it with every sample.
    pub fn new((node, backend): (u32, Box<dyn Backend>), opening: Vec<Note>) -> Self {
        let (past, linger) = (Past::default(), Linger::default());
        Self {
            backend,
            node,
            opening,
            past,
            census: Census::default(),
            shed: Vec::new(),
            linger,
            counted: false,
            tend: None,
        }
    }

    /// The backend.
    pub fn backend(&mut self) -> &mut dyn Backend {
        &mut *self.backend
    }

    /// From now on this must be attached, and nothing else for long.
    pub fn need(&mut self, capabilities: Vec<Capability>, now: Ns) {
        self.linger.need(capabilities, now);
        self.backend.attach(&self.linger.kept(now));
    }

    /// From now on this is given up.
    pub fn shed(&mut self, shed: Vec<(Capability, String)>) {
        self.shed = shed;
    }

    /// What is to be said of the backend, and of what is given up.
    pub fn notes(&self) -> Vec<Note> {
        let shed = self.shed.iter().map(|(_, text)| Note::remark(text.as_str()));
        self.opening.iter().cloned().chain(shed).collect()
    }

    /// From now on finds out which ranks are here, though nobody looks who wants to know of them.
    pub fn count_ranks(&mut self, now: Ns) {
        self.counted = true;
        self.tend = Some(now);
    }

    /// What is to be done whether or not somebody looks: lets go of what nobody needs any more,
    /// and takes in the records of the ended, which would fill the memory otherwise.
    pub fn tend(&mut self, now: Ns) {
        self.backend.attach(&self.linger.kept(now));
        if self.tend.is_some_and(|at| at <= now) {
            // What fails here is told to the next who looks.
            let _ = self.everybody(&Want { processes: true, ..Want::default() });
        }
    }

    /// When there is something to be done.
    pub fn due(&self) -> Option<Ns> {
        self.linger.due().into_iter().chain(self.tend).min()
    }

    /// Those of these who have ended and whose last record is not there yet.
    pub fn unsettled(&mut self, pids: &[Pid]) -> Vec<Pid> {
        if self.backend.wake().is_some() {
            // What fails here is told to the next who looks.
            let _ = self.everybody(&Want { processes: true, ..Want::default() });
            pids.iter().filter(|pid| !self.past.has_ended(**pid)).copied().collect()
        } else {
            // No record will come: they are gone when nobody waits for them any more.
            let few = self.backend.glance(pids).and_then(Result::ok);
            let dead = |it: &Process| it.row.get(ProcessField::State) == Some(u64::from(b'Z'));
            let few = few.map(|it| it.processes).unwrap_or_default();
            few.into_iter().filter(dead).map(|it| it.id.pid).collect()
        }
    }

    /// Takes each process for the rank that somebody says it is, if it is his to say.
    pub fn claim(&mut self, claims: &[Claim]) -> Vec<Result<(), Refusal>> {
        let sample = self.everybody(&Want { processes: true, ..Want::default() });
        let sample = sample.map_err(|error| refusal(&error));
        let settle = |claim| self.census.settle(claim, sample.as_ref().map_err(Clone::clone)?);
        claims.iter().map(settle).collect()
    }

    /// The ranks that are here, if they have changed since this was asked.
    pub fn news(&mut self) -> Option<Vec<Rank>> {
        self.census.news()
    }

    /// Lets everybody look.
    pub fn look(&mut self, turns: &mut [Turn<'_>]) {
        // The kernel walks page tables for PSS: those who want it do not make others pay.
        let costly = |turn: &&mut Turn<'_>| turn.view.want().wants(ProcessField::Pss);
        let (costly, mut shared): (Vec<_>, Vec<_>) = turns.iter_mut().partition(costly);
        self.round(&mut shared);
        for turn in costly {
            self.round(&mut [turn]);
        }
    }

    /// One reading, and everybody's look at it.
    fn round(&mut self, turns: &mut [&mut Turn<'_>]) {
        if turns.is_empty() {
            return;
        }
        let mut nodes: Vec<NodeRead> = Vec::new();
        let read = self.read(turns, &mut nodes);
        for turn in turns {
            turn.seen = Some(match &read {
                Ok(sample) => {
                    let want = node_want(turn.view.want());
                    let node = nodes.iter().find(|(it, _)| same(it, &want)).map(|(_, node)| node);
                    let (past, shed) = (&self.past, &*self.shed);
                    let reading = Reading { sample, node, past, namespaces: &self.census, shed };
                    turn.view.see(&reading, &mut *self.backend)
                }
                Err(error) => Err(refusal(error)),
            });
        }
    }

    /// Reads processes once, and the node once for each way in which it is wanted.
    fn read(
        &mut self,
        turns: &[&mut Turn<'_>],
        nodes: &mut Vec<NodeRead>,
    ) -> Result<Sample, Error> {
        let wants = || turns.iter().map(|turn| turn.view.want());
        let mut sample = None;
        if wants().any(|want| want.processes) {
            sample = Some(match self.glance(turns) {
                Some(sample) => sample,
                None => self.everybody(&union(turns.iter().map(|turn| &*turn.view)))?,
            });
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
        sample.node_number = self.node;
        sample.notes.splice(..0, self.opening.iter().cloned());
        Ok(sample)
    }

    /// Reads everybody, and keeps the last records of those who have ended.
    fn everybody(&mut self, want: &Want) -> Result<Sample, Error> {
        let mut want = want.clone();
        if self.counted && !want.wants(ProcessField::Job) {
            want.costly.push(ProcessField::Job);
        }
        let mut sample = self.backend.read(&want)?;
        self.census.learn(&mut sample, &want, &mut *self.backend);
        self.past.take_from(&mut sample);
        // Where no records wait, nobody must fetch them.
        let waits = self.counted || self.backend.wake().is_some();
        self.tend = waits.then_some(Ns(sample.at.boot.0.saturating_add(TEND.0)));
        Ok(sample)
    }

    /// Reads only those who are looked at, if they are few, are all there, and nothing of them is
    /// wanted but what the kernel itself keeps. Who is missing may have ended: his last record
    /// comes with a reading of everybody.
    fn glance(&mut self, turns: &[&mut Turn<'_>]) -> Option<Sample> {
        let views = || turns.iter().map(|turn| &*turn.view).filter(|view| view.want().processes);
        let mut pids: Vec<Pid> = Vec::new();
        for view in views() {
            pids.extend(view.few()?);
        }
        pids.sort_unstable();
        pids.dedup();
        let sample = self.backend.glance(&pids)?.ok()?;
        views().all(|view| view.finds_all(&sample.processes)).then_some(sample)
    }
}

/// What must be read for all of them.
fn union<'a>(eyes: impl Iterator<Item = &'a Eye>) -> Want {
    let mut all = Want::default();
    for eye in eyes.filter(|eye| eye.want().processes) {
        let want = eye.want();
        if want.wants(ProcessField::Pss) {
            let first = !all.wants(ProcessField::Pss);
            let others = std::mem::take(&mut all.pss_of);
            all.pss_of = if first { eye.pss_of() } else { others.or(eye.pss_of()) };
        }
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
        Error::Over { .. } => Status::NotAvailable,
    };
    Refusal::new(status, error.to_string())
}
