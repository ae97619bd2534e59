//! The thread that reads.
//!
//! In: views. Out: the same views, with what they saw. A slow reading delays those who wait for
//! it and nobody else, because calls are answered by another thread.

use super::dead::Dead;
use crate::backend::{Backend, hold};
use crate::engine::{Input, Look};
use crate::meter::round::{Rounds, Turn};
use crate::model::sample::Note;
use crate::model::want::Capability;
use crate::sys::pidfd::Ends;
use crate::sys::{clock, readable};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Work for the thread.
pub struct Work {
    /// Who is due; nobody, if only what must be attached has changed.
    pub looks: Vec<Look>,
    /// What must be attached, for them and for all others.
    pub capabilities: Vec<Capability>,
}

/// The thread's two ends.
pub struct Sampler {
    /// Work goes in here. There is never more than one piece of it that has looks.
    pub work: UnboundedSender<Work>,
    /// And comes back here.
    pub done: UnboundedReceiver<Input>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts the thread with a backend of its own.
    pub fn start(backend: Box<dyn Backend>, opening: Vec<Note>) -> std::io::Result<Self> {
        let (work, queue) = unbounded_channel();
        let (back, done) = unbounded_channel();
        let rounds = Rounds::new(backend, opening);
        let reader = Reader { rounds, back, ends: Ends::new()?, dead: Dead::default() };
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
    back: UnboundedSender<Input>,
    /// Waits for the end of those who are watched by name.
    ends: Ends,
    dead: Dead,
}

impl Reader {
    async fn run(mut self, mut queue: UnboundedReceiver<Work>) {
        let own = self.rounds.backend().wake().and_then(|fd| fd.try_clone_to_owned().ok());
        let wake = own.and_then(|fd| readable::readable(fd).ok());
        let ends = self.ends.as_fd().try_clone_to_owned().and_then(readable::readable).ok();
        loop {
            let due = self.rounds.due().map(super::instant);
            let again = self.dead.due().map(super::instant);
            tokio::select! {
                biased;
                work = queue.recv() => match work {
                    Some(work) => self.work(work),
                    None => return,
                },
                () = records(wake.as_ref()) => self.rounds.backend().drain(),
                () = records(ends.as_ref()) => self.dead.take(&self.ends.ended(), clock::boot()),
                () = super::until(again) => self.settle(),
                () = super::until(due) => self.rounds.tend(clock::boot()),
            }
        }
    }

    fn work(&mut self, work: Work) {
        self.rounds.need(work.capabilities, clock::boot());
        if work.looks.is_empty() {
            return;
        }
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
        // The loop is gone only if the service ends.
        let _ = self.back.send(Input::Seen(looks));
    }

    /// Tells whose last records have come.
    fn settle(&mut self) {
        let unsettled = self.rounds.unsettled(&self.dead.pids());
        let keys = self.dead.settled(&unsettled, clock::boot());
        if !keys.is_empty() {
            let _ = self.back.send(Input::Ended(keys));
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
