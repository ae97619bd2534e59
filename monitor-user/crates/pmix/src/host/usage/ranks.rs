//! What ranks of this host use, by their names.
//!
//! In: selectors and targets of a request, numbers of processes. Out: which fields of which ranks;
//! a container for each.

use crate::attribute::{Attribute, Datum, ProcName, WILDCARD};
use crate::host::hosted_job::{HostedJob, job_of, rank_of};
use crate::kind;
use crate::status;
use monitor_model::{PmixEncoding, PmixName, PmixNamed as _, Process, ProcessField};
use std::ffi::c_int;
use std::time::Duration;

/// What names ranks as targets.
pub const TARGETS: &str = "pmix.monitor.tgtproc";

/// The fields that have PMIx names, in the order of the Standard; the process is always there.
fn named() -> impl Iterator<Item = &'static PmixName<ProcessField>> {
    ProcessField::NAMES.iter().filter(|it| it.field != ProcessField::Pid)
}

/// The fields that are asked for: all if the value is absent.
pub fn fields(value: &Datum) -> Result<Vec<ProcessField>, c_int> {
    match value {
        Datum::Present | Datum::Number(kind::BOOL, _) => Ok(named().map(|it| it.field).collect()),
        Datum::Attributes(selectors) if !selectors.is_empty() => {
            let field = |it: &Attribute| {
                let is_given = ProcessField::is_always_present(&it.key);
                let found = named().find(|name| name.key == it.key).map(|it| it.field);
                found.or(is_given.then_some(ProcessField::Pid)).ok_or(status::BAD_PARAM)
            };
            selectors.iter().map(field).collect()
        }
        _ => Err(status::BAD_PARAM),
    }
}

/// The ranks that are asked for: those of the requestor's job, if none is named.
pub fn targets(
    jobs: &[HostedJob],
    requestor: &ProcName,
    directives: &[Attribute],
) -> Result<Vec<ProcName>, c_int> {
    let all_of = |nspace: &str| {
        let job = job_of(jobs, nspace);
        let ranks = job.map_or(0, |job| u32::try_from(job.ranks.len()).unwrap_or(u32::MAX));
        (0..ranks).map(|rank| ProcName { nspace: nspace.to_owned(), rank }).collect::<Vec<_>>()
    };
    let named = directives.iter().filter(|it| it.key == TARGETS);
    let mut targets: Vec<ProcName> = Vec::new();
    let mut is_named = false;
    for directive in named {
        is_named = true;
        let Datum::Procs(names) = &directive.value else { return Err(status::BAD_PARAM) };
        for name in names {
            let of_name = match name.rank {
                WILDCARD => all_of(&name.nspace),
                _ => vec![name.clone()],
            };
            let is_missing = |it: &ProcName| rank_of(jobs, it).is_none();
            if of_name.is_empty() || of_name.iter().any(is_missing) {
                return Err(status::NOT_FOUND);
            }
            targets
                .extend(of_name.into_iter().filter(|it| !targets.contains(it)).collect::<Vec<_>>());
        }
    }
    Ok(if is_named { targets } else { all_of(&requestor.nspace) })
}

/// A field of a process with its PMIx name; absent if the source does not know it.
fn attribute(process: &Process, name: &PmixName<ProcessField>) -> Option<Attribute> {
    let number = || process.row.get(name.field);
    let value = match (name.field, name.encoding) {
        (ProcessField::Cmdline, _) => Datum::text(process.text.cmdline.as_deref()?),
        (ProcessField::State, _) => {
            Datum::text(&char::from(u8::try_from(number()?).ok()?).to_string())
        }
        (ProcessField::Priority, _) => Datum::Number(kind::INT32, number()? & u64::from(u32::MAX)),
        (ProcessField::CpuPercent, _) => Datum::float(f64::from_bits(number()?) as f32),
        (_, PmixEncoding::Timeval) => {
            let time = Duration::from_nanos(number()?);
            let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
            Datum::Timeval(seconds, time.subsec_micros().into())
        }
        (_, PmixEncoding::Mebibytes) => {
            Datum::float((number()? as f64 / f64::from(1 << 20)) as f32)
        }
        // Threads, and the processor that it ran on last.
        _ => Datum::Number(kind::UINT16, number()?.min(u16::MAX.into())),
    };
    Some(Attribute::new(name.key, value))
}

/// The numbers of one process: its name first, the time of the sample last.
pub fn container(name: &ProcName, process: &Process, fields: &[ProcessField]) -> Attribute {
    let pid = process.id.pid.0;
    let mut all = vec![
        Attribute::new("pmix.procid", Datum::Proc(name.clone())),
        Attribute::new("pmix.ppid", Datum::Number(kind::PID, pid.into())),
    ];
    all.extend(
        named().filter(|it| fields.contains(&it.field)).filter_map(|it| attribute(process, it)),
    );
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    all.push(Attribute::new("pmix.proc.samptime", Datum::Number(kind::TIME, now)));
    Attribute::new(ProcessField::CONTAINER, Datum::Attributes(all))
}
