//! The output of ranks that a PMIx server has started, as `job launch --with pmix` keeps it.
//!
//! In: what the server sends of the ranks, on the thread of the library. Out: a log, which is
//! printed, and read by commands at a socket in the folder of the launch. The server and what it
//! sends are of the user: parts of other jobs, and of ranks that were not asked for, are not kept.

use super::launched_ranks::LaunchedRanks;
use super::launcher_host::NAMES;
use super::output::write;
use super::output_keeper::{REAPED, lock, look_for_ranks, wait_for_readers};
use super::tagged_lines::TaggedLines;
use crate::cli::output::notice;
use monitor_control::host_protocol::{EndedRank, HostAnswer, HostRequest, log_line};
use monitor_control::host_socket::{HostAnswers, listen};
use monitor_control::job_folder::JobFolder;
use monitor_control::output_log::{
    KEPT_OUTPUT, OutputLog, OutputPart, OutputReader, OutputSource, OutputWait,
};
use monitor_pmix::OutputReceiver;
use monitor_pmix::attribute::ProcName;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// Longest part of the log, bytes: a server may send more at once.
const LONGEST_PART: usize = 64 << 10;

/// What is kept of a launch.
pub struct PmixOutput {
    id: String,
    folder: JobFolder,
    /// What the ranks have written.
    pub log: Arc<OutputLog>,
    ends: Arc<Mutex<Vec<EndedRank>>>,
    ranks: Option<Arc<Mutex<LaunchedRanks>>>,
}

impl PmixOutput {
    /// Creates the folder of a launch in that for temporary files.
    ///
    /// # Errors
    /// If that is not writable.
    pub fn create(id: &str) -> io::Result<Self> {
        let folder = JobFolder::create(&std::env::temp_dir(), id)?;
        let (log, ends) = (OutputLog::new(KEPT_OUTPUT), Arc::default());
        Ok(Self { id: id.to_owned(), folder, log, ends, ranks: None })
    }

    /// The folder, which the environment of the ranks is to name.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes the output readable for commands, by the id of the launch and that of the job.
    ///
    /// # Errors
    /// If there is no socket, or the folder is not writable.
    pub fn listen(&mut self, job: &str) -> io::Result<()> {
        // A line is a name.
        let name = if job.contains('\n') { String::new() } else { format!("{job}\n") };
        std::fs::write(self.folder().join(NAMES), name)?;
        let (log, ends) = (Arc::clone(&self.log), Arc::clone(&self.ends));
        let answers = Answers { job: job.to_owned(), log, ends };
        listen(self.folder(), Arc::clone(&self.log), Arc::new(answers))?;
        self.ranks = Some(look_for_ranks(self.folder().to_owned()));
        Ok(())
    }

    /// What gets the output of this many ranks of the job.
    pub fn receiver(&self, job: &str, ranks: u32) -> Arc<dyn OutputReceiver> {
        Arc::new(Received {
            job: job.to_owned(),
            ranks,
            group: self.id.as_str().into(),
            log: Arc::clone(&self.log),
            has_others: AtomicBool::new(false),
        })
    }

    /// Prints the output from now on, on a thread; calls the function when all is printed, or the
    /// reader of standard output has gone.
    ///
    /// # Errors
    /// If there is no thread.
    pub fn print(
        &self,
        has_tags: bool,
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let reader = self.log.reader_from(0);
        let lines = has_tags.then(|| TaggedLines::new(&self.id));
        std::thread::Builder::new().name("output".into()).spawn(move || {
            let printed = print_all(&reader, lines);
            // No rank waits for this reader.
            drop(reader);
            if let Err(error) = printed
                && error.kind() != ErrorKind::BrokenPipe
            {
                notice(&format!("cannot write: {error}"));
            }
            ended();
        })
    }

    /// Closes the log: nothing more comes. The ends of the job and of the ranks follow what is in
    /// it.
    pub fn close(&self, job: &str, code: Option<u8>) {
        let code = code.map(i32::from);
        let mut ends =
            vec![EndedRank { namespace: job.to_owned(), rank: None, code, signal: None }];
        if let Some(ranks) = &self.ranks {
            ends.extend(lock(ranks).ends(&self.id, Instant::now() + REAPED));
        }
        *lock(&self.ends) = ends;
        self.log.close();
    }

    /// Waits for commands that have not read all.
    pub fn wait_for_readers(&self) {
        wait_for_readers(&self.log, Instant::now());
    }
}

fn print_all(reader: &OutputReader, mut lines: Option<TaggedLines>) -> io::Result<()> {
    while let Some(OutputPart { source, bytes, .. }) = reader.next_part(OutputWait::ToTheEnd) {
        match &mut lines {
            Some(lines) => {
                let writer = (source.group.to_string(), source.rank, source.is_error);
                write(source.is_error, &lines.add(writer, &bytes))?;
            }
            None => write(source.is_error, &bytes)?,
        }
    }
    let rest = lines.map(|mut it| it.rest()).unwrap_or_default();
    rest.into_iter().try_for_each(|(is_error, line)| write(is_error, &line))
}

/// Gets what the server sends.
struct Received {
    job: String,
    ranks: u32,
    group: Arc<str>,
    log: Arc<OutputLog>,
    /// Whether something else has come.
    has_others: AtomicBool,
}

impl OutputReceiver for Received {
    fn receive(&self, name: &ProcName, is_error: bool, bytes: &[u8]) {
        if name.nspace != self.job || name.rank >= self.ranks {
            if !self.has_others.swap(true, Ordering::Relaxed) {
                notice("the PMIx server sends output of other processes, which is not kept");
            }
            return;
        }
        let group = Arc::clone(&self.group);
        let source = OutputSource { group, rank: Some(name.rank), is_error };
        for part in bytes.chunks(LONGEST_PART) {
            self.log.append(&source, part);
        }
    }
}

/// Answers of this process.
struct Answers {
    job: String,
    log: Arc<OutputLog>,
    ends: Arc<Mutex<Vec<EndedRank>>>,
}

impl HostAnswers for Answers {
    fn answer(&self, request: HostRequest) -> io::Result<HostAnswer> {
        Ok(match request {
            HostRequest::Output(_) => HostAnswer::Ended(lock(&self.ends).clone()),
            HostRequest::Log { text, is_error } => {
                let line = log_line(&text);
                let group = self.job.as_str().into();
                let source = OutputSource { group, rank: None, is_error };
                // What is not kept is counted.
                let _kept = self.log.append_at_once(&source, line.as_bytes());
                HostAnswer::Done
            }
            HostRequest::Query { .. } | HostRequest::Notify { .. } => HostAnswer::Refused(
                "this process keeps output; name the job, whose server is asked".to_owned(),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_other_jobs_and_of_ranks_that_the_job_does_not_have_is_not_kept() {
        let log = OutputLog::new(KEPT_OUTPUT);
        let received = Received {
            job: "prte-vm-7@2".to_owned(),
            ranks: 2,
            group: "launch-7".into(),
            log: Arc::clone(&log),
            has_others: AtomicBool::new(false),
        };
        let write = |nspace: &str, rank, bytes: &[u8]| {
            received.receive(&ProcName { nspace: nspace.to_owned(), rank }, false, bytes);
        };
        write("prte-vm-7@2", 1, b"a");
        write("prte-vm-7@3", 1, b"b");
        write("prte-vm-7@2", 2, b"c");
        write("prte-vm-7@2", u32::MAX, b"d");
        write("prte-vm-7@2", 0, &vec![b'e'; LONGEST_PART + 1]);
        log.close();
        let reader = log.reader_from(0);
        let parts = std::iter::from_fn(|| reader.next_part(OutputWait::No));
        let got: Vec<_> = parts.map(|it| (it.source.rank, it.bytes.len())).collect();
        assert_eq!(got, [(Some(1), 1), (Some(0), LONGEST_PART), (Some(0), 1)]);
    }
}
