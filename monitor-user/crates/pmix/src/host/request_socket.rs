//! Requests of commands, on the socket of the host.
//!
//! In: the folder of the job, and the log of its output. Out: upcalls, which the loop of the host
//! answers (`host_socket`).

use crate::libpmix::send;
use crate::upcall::Upcall;
use monitor_control::host_protocol::{HostAnswer, HostRequest};
use monitor_control::host_socket::{self, HostAnswers};
use monitor_control::output_log::OutputLog;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Listens in the folder of the job.
///
/// # Errors
/// If the socket cannot be made.
pub fn listen(folder: &Path, log: Arc<OutputLog>) -> io::Result<()> {
    host_socket::listen(folder, log, Arc::new(Requests))
}

struct Requests;

impl HostAnswers for Requests {
    fn answer(&self, request: HostRequest) -> io::Result<HostAnswer> {
        let (answer, answered) = channel();
        send(Upcall::Request(request, answer));
        answered.recv().map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
