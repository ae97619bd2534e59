//! `monitor job notify`: an event for the ranks of a job (`PMIx_Notify_event`).
//!
//! In: the ranks that the user names, an event. Out: a line; the ranks that have a handler for the
//! event execute it.

use super::args::JobNotifyArgs;
use super::hold_report::{finish_reports, report_hold};
use super::host_connection::HostConnection;
use super::target::JobTarget;
use super::tool_connection::{Connects, ask, run_apart};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_control::host_protocol::HostRequest;
use monitor_format::human;
use monitor_jobs::Runtime;
use monitor_pmix::attribute::event_attributes;
use monitor_pmix::status::{DEBUGGER_RELEASE, RANGE_CUSTOM, RANGE_GLOBAL};
use std::collections::BTreeSet;

/// Raises the event.
///
/// # Errors
/// As those of [`ask`].
pub fn notify(args: &JobNotifyArgs) -> Result<Exit, Failure> {
    let target = JobTarget::find(&args.job)?;
    if target.job.runtime == Runtime::Prrte
        && let Some(exit) = run_apart(Connects::from_option(args.connects))?
    {
        return Ok(exit);
    }
    let nspace = &target.job.id;
    let ranks: BTreeSet<u32> = match args.job.contains(':') {
        true => target.processes().into_iter().map(|(rank, _)| rank).collect(),
        false => BTreeSet::new(),
    };
    let is_for_ranks = args.range == "ranks";
    let code = args.event;
    if target.job.runtime == Runtime::Native {
        let request = HostRequest::Notify {
            code,
            namespace: is_for_ranks.then(|| nspace.to_string()),
            ranks: ranks.into_iter().collect(),
            text: args.text.clone(),
        };
        HostConnection::of_job(&target.job, None)?.ask_once(&request)?;
    } else {
        let ranks: Vec<u32> = ranks.into_iter().collect();
        let of_ranks = is_for_ranks.then_some(&**nspace);
        let attributes = event_attributes(of_ranks, &ranks, args.text.as_deref());
        let range = if is_for_ranks { RANGE_CUSTOM } else { RANGE_GLOBAL };
        ask(&target, move |tool| tool.notify(code, range, &attributes))?;
        if code == DEBUGGER_RELEASE {
            // The server says nothing of it to the tool that has launched the job.
            report_hold(nspace, None);
            finish_reports();
        }
    }
    let line = format!("job {}: event {code} was raised\n", human::escaped_text(nspace));
    output::print(line.as_bytes())
}
