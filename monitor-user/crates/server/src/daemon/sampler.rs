//! The thread that reads: one reading for all who are due, each of whom looks at it.
//!
//! In: views. Out: the same views, with what they saw. A slow reading delays those who wait for
//! it and nobody else, because calls are answered by another thread.

use super::config::Keeping;
use super::dead::Dead;
use super::flight::{self, Recorder};
use super::timer::about;
use crate::http::Sight;
use crate::metrics;
use monitor_backend::Backend;
use monitor_backends::hold;
use monitor_backends::host::Host;
use monitor_format::exposition::Encoding;
use monitor_model::probe::Probe;
use monitor_model::request::Rank;
use monitor_model::sample::Note;
use monitor_model::status::Refusal;
use monitor_model::want::Capability;
use monitor_monitors::{Key, Look};
use monitor_protocol::Conn;
use monitor_protocol::answer::Handed;
use monitor_protocol::call::Tag;
use monitor_protocol::params;
use monitor_protocol::status::Own;
use monitor_sampling::census::Claim;
use monitor_sampling::examination::{Examination, Found};
use monitor_sampling::eye::Eye;
use monitor_sampling::round::{Rounds, Turn};
use monitor_sampling::scrape::{Exposed, Order, Scrape};
use monitor_sampling::veil::Veil;
use monitor_sys::pidfd::Ends;
use monitor_sys::{clock, readable};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What the thread is asked for.
pub enum Job {
    /// A reading.
    Look(Work),
    /// Attach this, and let go of what is not needed any more.
    Need(Vec<Capability>),
    /// Tell which ranks are here, now and whenever that changes.
    Ranks,
    /// See whether processes can be registered, and do it.
    Claims(Vec<(Key, Claim)>),
    /// Metrics.
    Scrape(Box<ScrapeJob>),
    /// Keep the last minutes, or no more.
    Keep(Keeping),
    /// A part of them for somebody.
    Hand {
        /// Whom.
        to: Conn,
        /// The tag of his call.
        tag: Tag,
        /// Which part.
        asked: params::Flight,
    },
    /// How each capability is served.
    Examine,
    /// The same for our own account, without looking at the host.
    Account {
        /// Whether run times are counted from now to the next such question.
        counted: bool,
    },
}

/// What it has done.
pub enum Done {
    /// Everybody has looked.
    Looked(Vec<Look>),
    /// Somebody whom these monitors watch has ended, and his last record is there.
    Ended(Vec<Key>),
    /// What became of claims.
    Claimed(Vec<(Key, Result<(), Refusal>)>),
    /// The ranks that are here now.
    Ranks(Vec<Rank>),
    /// Metrics, or why there are none.
    Scraped(Sight, Encoding, Result<Vec<u8>, String>),
    /// A part of what was kept.
    Handed(Conn, Tag, Result<Handed, Refusal>),
    /// What it found.
    Examined(Box<Examination>),
    /// What each capability did until now.
    Accounted(Vec<Probe>),
}

/// Work for the thread.
pub struct Work {
    /// Who is due.
    pub looks: Vec<Look>,
    /// What is given up, and the sentence that says so.
    pub shed: Vec<(Capability, String)>,
}

/// An order for metrics.
pub struct ScrapeJob {
    /// For whom.
    pub sight: Sight,
    /// Through which veil he looks.
    pub veil: Veil,
    /// What is exposed.
    pub exposed: Arc<Exposed>,
    /// How it is written.
    pub encoding: Encoding,
    /// The service's own numbers.
    pub own: Own,
    /// What must be attached.
    pub capabilities: Vec<Capability>,
    /// What is given up, and the sentence that says so.
    pub shed: Vec<(Capability, String)>,
}

/// The thread's two ends.
pub struct Sampler {
    /// Work goes in here. There is never more than one reading of it, one account, and one
    /// examination.
    pub work: UnboundedSender<Job>,
    /// And comes back here.
    pub done: UnboundedReceiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts the thread with a backend of its own.
    pub fn start(
        (node, backend): (u32, Box<dyn Backend>),
        opening: Vec<Note>,
    ) -> std::io::Result<Self> {
        let (work, queue) = unbounded_channel();
        let (back, done) = unbounded_channel();
        let (rounds, ends) = (Rounds::new((node, backend), opening), Ends::new()?);
        let (dead, collectors) = (Dead::default(), HashMap::new());
        let recorder = None;
        let reader = Reader { rounds, back, ends, dead, collectors, recorder, counting: None };
        let thread = std::thread::Builder::new().name("sampler".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(reader.run(queue)),
                Err(error) => tracing::error!("cannot start the thread that reads: {error}"),
            }
        })?;
        Ok(Self { work, done, thread: Some(thread) })
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

struct Reader {
    rounds: Rounds,
    back: UnboundedSender<Done>,
    /// Waits for the end of those who are watched by name.
    ends: Ends,
    dead: Dead,
    /// The eyes of those who collect metrics, and what is exposed to them.
    collectors: HashMap<Sight, (Arc<Exposed>, Eye)>,
    /// Keeps the last minutes, if they are wanted.
    recorder: Option<Recorder>,
    /// Held while the kernel counts the run time of programs.
    counting: Option<OwnedFd>,
}

impl Reader {
    async fn run(mut self, mut queue: UnboundedReceiver<Job>) {
        let own = self.rounds.backend().wake().and_then(|fd| fd.try_clone_to_owned().ok());
        let wake = own.and_then(|fd| readable::readable(fd).ok());
        let ends = self.ends.as_fd().try_clone_to_owned().and_then(readable::readable).ok();
        loop {
            let (due, again) = (self.rounds.due(), self.dead.due());
            let record = self.recorder.as_ref().map(|it| it.due());
            tokio::select! {
                biased;
                job = queue.recv() => match job {
                    Some(job) => self.job(job),
                    None => return,
                },
                () = records(wake.as_ref()) => self.rounds.backend().drain(),
                () = records(ends.as_ref()) => self.dead.take(&self.ends.ended(), clock::boot()),
                () = about(again) => self.settle(),
                () = about(record) => self.record(),
                () = about(due) => self.rounds.tend(clock::boot()),
            }
            if let Some(ranks) = self.rounds.news() {
                self.tell(Done::Ranks(ranks));
            }
        }
    }

    fn job(&mut self, job: Job) {
        match job {
            Job::Look(work) => self.work(work),
            Job::Need(capabilities) => self.rounds.need(capabilities, clock::boot()),
            Job::Ranks => self.rounds.count_ranks(clock::boot()),
            Job::Claims(claims) => {
                let (keys, claims): (Vec<_>, Vec<_>) = claims.into_iter().unzip();
                let settled = self.rounds.claim(&claims);
                self.tell(Done::Claimed(keys.into_iter().zip(settled).collect()));
            }
            Job::Scrape(job) => {
                let (sight, encoding) = (job.sight, job.encoding);
                let seen = self.scrape(*job).map_err(|refusal| refusal.message);
                self.tell(Done::Scraped(sight, encoding, seen));
            }
            Job::Keep(keeping) => self.keep(keeping),
            Job::Hand { to, tag, asked } => {
                let handed = self.recorder.as_mut().map(|it| it.hand(asked));
                self.tell(Done::Handed(to, tag, handed.ok_or_else(flight::off)));
            }
            Job::Examine => {
                let found = Box::new(self.examine());
                self.tell(Done::Examined(found));
            }
            Job::Account { counted } => self.account(counted),
        }
    }

    /// What the probes have counted; whether the kernel counts their time is set anew.
    fn account(&mut self, counted: bool) {
        let probes = self.rounds.backend().probes();
        self.counting = None;
        if counted {
            self.counting = self.rounds.backend().statistics();
        }
        self.tell(Done::Accounted(probes));
    }

    /// What was kept stays, unless it is to be kept otherwise.
    fn keep(&mut self, keeping: Keeping) {
        if self.recorder.as_ref().is_none_or(|it| it.keeping() != keeping) {
            let backend = self.rounds.backend().source().name();
            self.recorder = Recorder::new(keeping, backend, clock::boot());
        }
    }

    fn record(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.look(&mut self.rounds, clock::boot());
        }
    }

    fn tell(&self, done: Done) {
        // The loop is gone only if the service ends.
        let _ = self.back.send(done);
    }

    /// As it is: nothing is attached for it, and nobody is made to run into a hook.
    fn examine(&mut self) -> Examination {
        let notes = self.rounds.notes();
        let backend = self.rounds.backend();
        let found = Found { backend: backend.source().name(), probes: backend.probes(), notes };
        let host = Host::read(Path::new("/"));
        Examination { service: true, ..Examination::of(&host, Some(&found)) }
    }

    /// One reading for whoever collects. His eye stays, so that counters of groups only grow; where
    /// something else is exposed than before, it begins anew.
    fn scrape(&mut self, job: ScrapeJob) -> Result<Vec<u8>, Refusal> {
        self.rounds.need(job.capabilities, clock::boot());
        self.rounds.shed(job.shed);
        let own = metrics::own(&job.own, &self.rounds.backend().probes());
        let there =
            self.collectors.remove(&job.sight).filter(|it| Arc::ptr_eq(&it.0, &job.exposed));
        let mut scrape = match there {
            Some((_, Eye::Scrape(scrape))) => scrape,
            _ => Box::new(Scrape::new(&job.exposed, job.veil)?),
        };
        scrape.order(Order { encoding: job.encoding, own });
        let mut eye = Eye::Scrape(scrape);
        let mut turns = [Turn { view: &mut eye, seen: None }];
        self.rounds.look(&mut turns);
        let [turn] = turns;
        let seen = turn.seen;
        self.collectors.insert(job.sight, (job.exposed, eye));
        seen.unwrap_or_else(|| Err(Refusal::bad("nothing was read"))).map(|seen| seen.json)
    }

    fn work(&mut self, work: Work) {
        self.rounds.shed(work.shed);
        let mut looks = work.looks;
        let mut turns: Vec<_> =
            looks.iter_mut().map(|look| Turn { view: &mut look.view, seen: None }).collect();
        self.rounds.look(&mut turns);
        let seen: Vec<_> = turns.into_iter().map(|turn| turn.seen).collect();
        for (look, seen) in looks.iter_mut().zip(seen) {
            look.seen = seen;
        }
        for look in &mut looks {
            let key = look.key;
            look.view.hold(&mut |id| hold::hold(&self.ends, id, Dead::mark(key, id.pid)));
        }
        self.tell(Done::Looked(looks));
    }

    /// Tells whose last records have come.
    fn settle(&mut self) {
        let unsettled = self.rounds.unsettled(&self.dead.pids());
        let keys = self.dead.settled(&unsettled, clock::boot());
        if !keys.is_empty() {
            self.tell(Done::Ended(keys));
        }
    }
}

/// Waits for records; for ever, where there is no ring buffer.
async fn records(wake: Option<&AsyncFd<OwnedFd>>) {
    let Some(wake) = wake else { return std::future::pending().await };
    if let Ok(mut ready) = wake.readable().await {
        ready.clear_ready();
    }
}
