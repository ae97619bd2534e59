//! The output of ranks for tools that want it (`PMIX_FWD_STDOUT`, `PMIx_IOF_pull`).
//!
//! In: the log of the output, and which namespaces tools asked for. Out: each part to the library,
//! which sends it to the tools. A thread reads the log from the first request on; what it has not
//! had yet, ranks wait for, as for any reader.

use crate::attribute::ProcName;
use crate::libpmix::{OutputSender, send as notify};
use crate::upcall::Upcall;
use monitor_control::output_log::{OutputEnd, OutputLog, OutputPart, OutputSource, OutputWait};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Most namespaces whose output is sent.
const MOST: usize = 1024;

/// Standard output and error: which of them are sent, by namespace.
type Wanted = BTreeMap<String, [bool; 2]>;

/// What tools get.
pub struct ToolOutput {
    wanted: Arc<Mutex<Wanted>>,
    reading: Option<(OutputEnd, JoinHandle<()>)>,
    sender: OutputSender,
}

impl ToolOutput {
    /// Nothing yet.
    pub fn new(sender: OutputSender) -> Self {
        Self { wanted: Arc::default(), reading: None, sender }
    }

    /// Sends these streams of a namespace from now on.
    ///
    /// # Errors
    /// If there are too many, or no thread can be started.
    pub fn add(
        &mut self,
        log: &Arc<OutputLog>,
        nspace: &str,
        streams: [bool; 2],
    ) -> io::Result<()> {
        if streams == [false; 2] {
            return Ok(());
        }
        let mut wanted = lock(&self.wanted);
        if wanted.len() >= MOST && !wanted.contains_key(nspace) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let both = wanted.entry(nspace.to_owned()).or_default();
        *both = [both[0] || streams[0], both[1] || streams[1]];
        drop(wanted);
        if self.reading.is_none() {
            self.start(log)?;
        }
        Ok(())
    }

    /// Marks the end of the output of a namespace; whether an upcall will say that all of it was
    /// sent.
    pub fn end(&self, log: &OutputLog, nspace: &str) -> bool {
        let source = OutputSource { group: nspace.into(), rank: None, is_error: false };
        let is_sent = self.reading.is_some() && lock(&self.wanted).contains_key(nspace);
        is_sent && log.append_at_once(&source, b"")
    }

    /// Sends nothing of a namespace any longer.
    pub fn remove(&self, nspace: &str) {
        lock(&self.wanted).remove(nspace);
    }

    fn start(&mut self, log: &Arc<OutputLog>) -> io::Result<()> {
        let reader = log.reader_from(0);
        // What was written before is not sent.
        while reader.next_part(OutputWait::No).is_some() {}
        let end = reader.end();
        let (wanted, sender) = (Arc::clone(&self.wanted), self.sender);
        let thread = std::thread::Builder::new().name("tool output".into()).spawn(move || {
            while let Some(part) = reader.next_part(OutputWait::ToTheEnd) {
                send(&wanted, sender, &part);
            }
        })?;
        self.reading = Some((end, thread));
        Ok(())
    }
}

impl Drop for ToolOutput {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.reading.take() {
            end.end();
            // The library may be finalized only after it.
            let _panicked = thread.join();
        }
    }
}

fn lock(wanted: &Mutex<Wanted>) -> MutexGuard<'_, Wanted> {
    wanted.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send(wanted: &Mutex<Wanted>, sender: OutputSender, part: &OutputPart) {
    let source = &part.source;
    let Some(rank) = source.rank else {
        if part.bytes.is_empty() {
            notify(Upcall::OutputSent(source.group.to_string()));
        }
        return;
    };
    let streams = lock(wanted).get(&*source.group).copied().unwrap_or_default();
    if streams[usize::from(source.is_error)] {
        let name = ProcName { nspace: source.group.to_string(), rank };
        // The tool has gone, if it is refused.
        let _gone = sender.send(&name, source.is_error, &part.bytes);
    }
}
