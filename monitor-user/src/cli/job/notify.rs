//! `monitor job notify`: an event for the ranks of a job (`PMIx_Notify_event`).
//!
//! In: the ranks that the user names, an event. Out: a line; the ranks that have a handler for the
//! event execute it.

use super::args::JobNotifyArgs;
use super::host_connection::HostConnection;
use super::target::JobTarget;
use super::tool_connection::ask;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_format::human;
use monitor_jobs::Runtime;
use monitor_pmix::attribute::{Attribute, Datum, ProcName, WILDCARD};
use monitor_pmix::host::request::HostRequest;
use monitor_pmix::status::{RANGE_CUSTOM, RANGE_GLOBAL};
use std::collections::BTreeSet;

/// Raises the event.
///
/// # Errors
/// As those of [`ask`].
pub fn notify(args: &JobNotifyArgs) -> Result<Exit, Failure> {
    let target = JobTarget::find(&args.job)?;
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
        let mut attributes = vec![Attribute::new("pmix.evnondef", Datum::flag(true))];
        if is_for_ranks {
            let name = |rank| ProcName { nspace: nspace.to_string(), rank };
            let all = ranks.is_empty().then_some(WILDCARD);
            let names = ranks.into_iter().chain(all).map(name).collect();
            attributes.push(Attribute::new("pmix.evrange", Datum::Procs(names)));
        }
        let text = args.text.as_deref().map(Datum::text);
        attributes.extend(text.map(|it| Attribute::new("pmix.evtext", it)));
        let range = if is_for_ranks { RANGE_CUSTOM } else { RANGE_GLOBAL };
        ask(&target, move |tool| tool.notify(code, range, &attributes))?;
    }
    let line = format!("job {}: event {code} was raised\n", human::escaped_text(nspace));
    output::print(line.as_bytes())
}
