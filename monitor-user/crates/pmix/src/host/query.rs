//! What the host answers to `PMIx_Query_info`.

use super::hosted_job::HostedJob;
use crate::attribute::{Attribute, Datum, find};
use crate::kind;
use crate::libpmix::Reply;
use crate::status;

/// What this host can do for a tool that starts programs.
const SPAWN: &str = "pmix.wdir,pmix.envar.set,pmix.envar.add,pmix.envar.unset,pmix.envar.prepnd,\
                     pmix.envar.appnd,pmix.envar.first";

/// Where this host can hold ranks.
const DEBUG: &str = "pmix.dbg.exec,pmix.dbg.init,pmix.dbg.notify,pmix.debugger,pmix.dbg.tgt,\
                     pmix.dbg.dpproc,pmix.dbg.dpnd";

/// Answers queries: each its keys, and what limits them.
pub fn answer(
    (jobs, host): (&[HostedJob], &str),
    queries: &[(Vec<String>, Vec<Attribute>)],
    reply: Reply,
) {
    let asked: usize = queries.iter().map(|(keys, _)| keys.len()).sum();
    let mut found = Vec::new();
    for (keys, qualifiers) in queries {
        let nspace = find(qualifiers, "pmix.nspace").and_then(Datum::as_str);
        found.extend(keys.iter().filter_map(|key| one((jobs, host), key, nspace)));
    }
    let status = match found.len() {
        0 => status::NOT_FOUND,
        n if n < asked => status::PARTIAL_SUCCESS,
        _ => status::SUCCESS,
    };
    reply.attributes(status, &found);
}

/// The answer to a key, about a job if the key is of one.
pub fn one(
    (jobs, host): (&[HostedJob], &str),
    key: &str,
    nspace: Option<&str>,
) -> Option<Attribute> {
    let job = || jobs.iter().find(|job| nspace.is_none_or(|it| it == job.nspace));
    let value = match key {
        "pmix.qry.ns" => {
            let names: Vec<&str> = jobs.iter().map(|job| job.nspace.as_str()).collect();
            Datum::text(&names.join(","))
        }
        "pmix.qry.spawn" => Datum::text(SPAWN),
        "pmix.qry.debug" => Datum::text(DEBUG),
        "pmix.qry.ptable" | "pmix.qry.lptable" => Datum::Table(job()?.table(host)),
        "pmix.job.size" => {
            Datum::Number(kind::UINT32, u64::try_from(job()?.ranks.len()).unwrap_or(u64::MAX))
        }
        "pmix.qry.jst" => Datum::Number(kind::STATUS, u64::from(!job()?.runs())),
        _ => return None,
    };
    Some(Attribute::new(key, value))
}
