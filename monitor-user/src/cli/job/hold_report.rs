//! Reports to the service of the node where the ranks of a job are held: for its transitions.
//!
//! In: jobs and places. Out: requests `job_report_hold`, in this order, from a thread of their own:
//! a service that is not there, does not answer or refuses delays nothing, and is not missed. The
//! connection stays: what is reported ends with this process.

use monitor_client::tool::Tool;
use monitor_jobs::hold_table::HoldPoint;
use monitor_omis::Value;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Most reports that wait for the service; more are lost.
const WAITING: usize = 64;

type Report = (String, Option<HoldPoint>);

/// All ranks of a job are held at a place by this process, or are not any more.
pub fn report_hold(job: &str, place: Option<HoldPoint>) {
    static REPORTS: OnceLock<SyncSender<Report>> = OnceLock::new();
    let reports = REPORTS.get_or_init(|| {
        let (sender, reports) = sync_channel(WAITING);
        // It ends with the process.
        let _detached = std::thread::spawn(move || send_all(&reports));
        sender
    });
    if reports.try_send((job.to_owned(), place)).is_err() {
        tracing::debug!(job, "the service does not take reports");
    }
}

fn send_all(reports: &Receiver<Report>) {
    let mut service: Option<Tool> = None;
    while let Ok((job, place)) = reports.recv() {
        let place = place.map_or("", HoldPoint::name);
        let request = format!("job_report_hold({},{})", Value::from(&*job), Value::from(place));
        // The service may have been started, or started again, since the last one.
        let sent = service.take().or_else(|| Tool::connect().ok()).map(|tool| {
            let results = tool.results(&request);
            (tool, results)
        });
        match sent {
            Some((tool, Ok(_))) => service = Some(tool),
            Some((_, Err(error))) => tracing::debug!(%error, job, "the service refuses a report"),
            None => {}
        }
    }
}
