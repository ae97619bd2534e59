//! Reports to the service of the node where the ranks of a job are held: for its transitions.
//!
//! In: jobs and places. Out: requests `job_report_hold`, in this order, from a thread of their own:
//! a service that is not there, does not answer or refuses delays nothing, and is not missed. The
//! connection stays: what is reported of ranks that no signal has stopped ends with this process.

use monitor_client::tool::Tool;
use monitor_jobs::hold_table::HoldPoint;
use monitor_omis::Value;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Most reports that wait for the service; more are lost.
const WAITING: usize = 64;
/// How long a process that ends waits for the service.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

enum Report {
    /// All ranks of a job are held at a place, or are not any more.
    Hold(String, Option<HoldPoint>),
    /// What is before it has been sent.
    Sent(SyncSender<()>),
}

static REPORTS: OnceLock<SyncSender<Report>> = OnceLock::new();

/// All ranks of a job are held at a place by this process, or are not any more.
pub fn report_hold(job: &str, place: Option<HoldPoint>) {
    let reports = REPORTS.get_or_init(|| {
        let (sender, reports) = sync_channel(WAITING);
        // It ends with the process.
        let _detached = std::thread::spawn(move || send_all(&reports));
        sender
    });
    if reports.try_send(Report::Hold(job.to_owned(), place)).is_err() {
        tracing::debug!(job, "the service does not take reports");
    }
}

/// Waits a while for the service to take what was reported: for a process that ends.
pub fn finish_reports() {
    let Some(reports) = REPORTS.get() else { return };
    let (sender, sent) = sync_channel(1);
    if reports.try_send(Report::Sent(sender)).is_ok() {
        // A service that is late is not missed.
        let _in_time = sent.recv_timeout(ENDS_WITHIN);
    }
}

fn send_all(reports: &Receiver<Report>) {
    let mut service: Option<Tool> = None;
    while let Ok(report) = reports.recv() {
        match report {
            Report::Hold(job, place) => service = send(service.take(), &job, place),
            // It may wait no longer.
            Report::Sent(sender) => drop(sender.try_send(())),
        }
    }
}

/// Sends a report; the connection, if the service takes it. It may have been started since the one
/// before.
fn send(service: Option<Tool>, job: &str, place: Option<HoldPoint>) -> Option<Tool> {
    let tool = service.or_else(|| Tool::connect().ok())?;
    let place = place.map_or("", HoldPoint::name);
    match tool.results(&format!("job_report_hold({},{})", Value::from(job), Value::from(place))) {
        Ok(_) => Some(tool),
        Err(error) => {
            tracing::debug!(%error, job, "the service refuses a report");
            None
        }
    }
}
