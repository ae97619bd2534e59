//! `monitor job log`: a text in the output of a job.
//!
//! In: a job, a text. Out: the host of the job writes it on its standard output or error, and keeps
//! it with the output of the ranks. Servers of other runtimes do not understand `PMIx_Log` of a
//! tool (PMIx 4.2.2 and 5.0.11: the tool leaves out a time that the server expects).

use super::args::JobLogArgs;
use super::host_connection::HostConnection;
use crate::cli::exit::{Exit, Failure};
use monitor_control::host_protocol::HostRequest;

/// Sends the text.
///
/// # Errors
/// If there is no such job, it has no host of this program, or that does not answer.
pub fn log(args: &JobLogArgs) -> Result<Exit, Failure> {
    let request = HostRequest::Log { text: args.text.clone(), is_error: args.to == "stderr" };
    HostConnection::find(&args.job)?.ask_once(&request)?;
    Ok(Exit::Ok)
}
