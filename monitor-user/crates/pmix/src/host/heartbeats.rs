//! Alerts about clients that send no heartbeats.
//!
//! In: a client that is watched, and which processes want to know. Out: an event with the client as
//! its source to those; and one of the host to the client itself, which the library would leave out
//! as the source.

use super::Host;
use super::job_data::server_name;
use crate::attribute::{Attribute, Datum, ProcName, WILDCARD};
use crate::status::{self, RANGE_CUSTOM, RANGE_GLOBAL};
use crate::upcall::LostHeartbeats;

/// `PMIX_RANGE_RM`: the host alone.
const HOST: u8 = 1;
/// `PMIX_RANGE_NAMESPACE`.
const NAMESPACE: u8 = 3;
/// `PMIX_RANGE_PROC_LOCAL`: the process alone.
const PROCESS: u8 = 7;

impl Host {
    /// Raises the event of a client that sends no heartbeats.
    pub(super) fn heartbeats_missing(&self, lost: &LostHeartbeats) {
        let code = if lost.code == 0 { status::HEARTBEAT_ALERT } else { lost.code };
        let name = &lost.name;
        let about = |range: Option<Datum>| {
            let mut all = vec![
                Attribute::new("pmix.evnondef", Datum::flag(true)),
                Attribute::new("pmix.evproc", Datum::Proc(name.clone())),
            ];
            all.extend(range.map(|it| Attribute::new("pmix.evrange", it)));
            all
        };
        let others = match lost.range.range {
            HOST => {
                let (rank, missed) = (name.rank, lost.missed);
                self.notice(&format!(
                    "rank {rank} of {} has sent no heartbeat in {missed} windows",
                    name.nspace
                ));
                return;
            }
            PROCESS => None,
            NAMESPACE => {
                let all = ProcName { nspace: name.nspace.clone(), rank: WILDCARD };
                Some((RANGE_CUSTOM, about(Some(Datum::Procs(vec![all])))))
            }
            RANGE_CUSTOM => Some((RANGE_CUSTOM, about(lost.range.targets.clone()))),
            _ => Some((RANGE_GLOBAL, about(None))),
        };
        let own = about(Some(Datum::Procs(vec![name.clone()])));
        let events = others.map(|(range, it)| (name.clone(), range, it));
        for (source, range, attributes) in
            events.into_iter().chain([(server_name(), RANGE_CUSTOM, own)])
        {
            if let Err(error) = self.server.notify(code, &source, range, &attributes) {
                self.notice(&format!("an alert about rank {} was not sent: {error}", name.rank));
            }
        }
    }
}
