//! Saves what the flight recorder of our own service keeps: through `monitor save`, which the
//! user's worker starts, and which requests the data from the service as any client.
//!
//! In: the file. Out: the program to start, and later whether the file exists. So the service
//! writes nothing with its own rights, and waits for nothing.

use crate::PlatformEvent;
use monitor_backends::pidfd_watch;
use monitor_control::LaunchSpec;
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::thread::Ticket;
use monitor_model::{Identity, Ns};
use monitor_omis::{Status, Text, Value};
use monitor_sys::clock;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{collections::HashMap, os::unix::ffi::OsStrExt as _, sync::Arc};

/// From one file to the next, at least: an event may occur as often as it will.
const MIN_INTERVAL: Ns = Ns(1_000_000_000);
/// How often is looked whether a program has ended.
const CHECK_INTERVAL: Ns = Ns(20_000_000);
/// Where processes are dumped to that go to another node, unless the configuration says another.
pub const DEFAULT_DUMP_FOLDER: &str = "/var/lib/monitor/images";
/// This program.
const SELF: &str = "/proc/self/exe";

/// The service that owns this platform.
#[derive(Clone)]
pub struct ServiceConfig {
    /// Where it listens, if at a socket.
    pub socket: Option<PathBuf>,
    /// Whether it keeps the last minutes.
    pub is_recording: Arc<AtomicBool>,
    /// Where processes are dumped to that go to another node.
    pub dump_folder: PathBuf,
    /// Where what is to be undone is written, for the next service if this one is killed.
    pub undo_folder: Option<PathBuf>,
    /// The program that acts for users.
    pub worker_program: PathBuf,
}

/// Files that are being written.
pub struct RecordingSaver {
    service: ServiceConfig,
    last_start: Option<Ns>,
    pending: HashMap<Ticket, PendingFile>,
    next_check: Ns,
}

struct PendingFile {
    file: PathBuf,
    program: Option<Identity>,
}

impl RecordingSaver {
    /// Of this service.
    pub fn new(service: ServiceConfig) -> Self {
        Self { service, last_start: None, pending: HashMap::new(), next_check: Ns(0) }
    }

    /// The program that writes the file.
    pub fn start(
        &mut self,
        ticket: Ticket,
        (file, last): (&Path, Option<Ns>),
    ) -> Result<LaunchSpec, Refusal> {
        let keeps = self.service.is_recording.load(Ordering::Relaxed);
        let Some(socket) = self.service.socket.as_ref().filter(|_| keeps) else {
            let text = "the flight recorder is off: set flight.keep in the configuration";
            return Err(Refusal::new(Status::UNSUPPORTED, text));
        };
        let now = clock::now();
        let file = match file.as_os_str().as_bytes().ends_with(b"/") {
            true => file.join(format!("flight-{}.mon", now.unix.0 / 1_000_000)),
            false => file.to_owned(),
        };
        if file.symlink_metadata().is_ok() {
            let text = format!("{} is there already: choose another name", file.display());
            return Err(Refusal::new(Status::EXISTS, text));
        }
        if self.last_start.is_some_and(|it| now.boot.since(it) < MIN_INTERVAL) {
            let text = "a recording was begun less than a second ago: this one is left out";
            return Err(Refusal::new(Status::BUSY, text));
        }
        self.last_start = Some(now.boot);
        let socket = socket.as_os_str().as_bytes().to_vec();
        let bytes = file.as_os_str().as_bytes().to_vec();
        let mut arguments = vec![b"save".to_vec(), bytes, b"--socket".to_vec(), socket];
        if let Some(last) = last {
            arguments.extend([b"--last".to_vec(), format!("{}ns", last.0).into_bytes()]);
        }
        let _none = self.pending.insert(ticket, PendingFile { file, program: None });
        Ok(LaunchSpec {
            path: SELF.into(),
            arguments,
            environment: None,
            folder: None,
            streams: [None, None, None],
            stopped: false,
        })
    }

    /// It could not be begun.
    pub fn cancel(&mut self, ticket: Ticket) {
        let _gone = self.pending.remove(&ticket);
    }

    /// When to look next.
    pub fn next_poll(&self) -> Option<Ns> {
        self.pending.values().any(|it| it.program.is_some()).then_some(self.next_check)
    }

    /// What happened, without programs that have only begun, and with files that are there.
    pub fn filter_events(&mut self, all: Vec<PlatformEvent>, now: Ns) -> Vec<PlatformEvent> {
        let mut all: Vec<PlatformEvent> =
            all.into_iter().filter_map(|it| self.filter_event(it)).collect();
        if self.next_check <= now {
            self.next_check = Ns(now.0 + CHECK_INTERVAL.0);
            let ended =
                |it: &PendingFile| it.program.is_some_and(|id| pidfd_watch::open(id).is_none());
            let over = self.pending.extract_if(|_, it| ended(it));
            let done = |(ticket, it): (_, PendingFile)| {
                PlatformEvent::ActionDone(ticket, vec![it.outcome()])
            };
            all.extend(over.map(done));
        }
        all
    }

    /// Records that a program has started; a failure to start is reported.
    fn filter_event(&mut self, it: PlatformEvent) -> Option<PlatformEvent> {
        let PlatformEvent::ActionDone(ticket, each) = &it else { return Some(it) };
        let Some(open) = self.pending.get_mut(ticket) else { return Some(it) };
        if let Some((id, Ok(_))) = each.first() {
            open.program = Some(*id);
            return None;
        }
        self.cancel(*ticket);
        Some(it)
    }
}

impl PendingFile {
    /// Whether the file is there; where we may not look, its writer knew.
    fn outcome(self) -> <ProcessResults as IntoIterator>::Item {
        let id = self.program.unwrap_or_default();
        let file = self.file.as_os_str().as_bytes();
        let missing = self
            .file
            .symlink_metadata()
            .is_err_and(|why| why.kind() == std::io::ErrorKind::NotFound);
        if missing {
            let text = format!(
                "{} was not written: try monitor save, as the same user; it says why",
                self.file.display()
            );
            return (id, Err(Refusal::new(Status::IO, text)));
        }
        (id, Ok(vec![Value::Text(Text::from(file.to_vec()))]))
    }
}
