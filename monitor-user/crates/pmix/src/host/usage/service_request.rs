//! A request that the service of the node carries out: nodes, their devices, and processes that are
//! not of this host, also on other nodes.
//!
//! In: what is asked for, with its directives (PMIx Standard 5, chapter 12; `pmix_common.h` of
//! OpenPMIx 6). Out: a request of the socket. Targets are the union of all that are named, in any
//! order.

use super::ranks;
use crate::attribute::{Attribute, Datum, NodePid, ProcName, WILDCARD, find};
use crate::host::hosted_job::{HostedJob, job_of};
use crate::status;
use monitor_model::{MonitorRequest, NodeName, RankTarget, Target};
use std::ffi::{CStr, CString, c_int};
use std::time::Duration;

/// The part of a request for processes.
pub const PROCESSES: &str = "proc";
const PIDS: &str = "pmix.monitor.tgtpid";
const NODES: &str = "pmix.monitor.tgtnode";
const NODE_NUMBERS: &str = "pmix.monitor.tgtndids";

/// The part of a sample that is asked for, by the key of the request.
pub fn part(key: &str) -> Option<&'static str> {
    Some(match key {
        "pmix.monitor.presuse" => PROCESSES,
        "pmix.monitor.ndresuse" => "node",
        "pmix.monitor.dkresuse" => "disk",
        "pmix.monitor.netresuse" => "net",
        _ => return None,
    })
}

/// Whether targets are no ranks of this host.
pub fn names_others(jobs: &[HostedJob], directives: &[Attribute]) -> bool {
    directives.iter().any(|it| match it.key.as_str() {
        PIDS | NODES | NODE_NUMBERS => true,
        ranks::TARGETS => match &it.value {
            Datum::Procs(names) => names.iter().any(|name| job_of(jobs, &name.nspace).is_none()),
            _ => false,
        },
        _ => false,
    })
}

/// The period of a monitor; zero for a single sample.
pub fn period(directives: &[Attribute]) -> Result<Duration, c_int> {
    let Some(rate) = find(directives, "pmix.monitor.resrate") else { return Ok(Duration::ZERO) };
    let seconds = rate.number().and_then(|it| u32::try_from(it).ok()).ok_or(status::BAD_PARAM)?;
    Ok(Duration::from_secs(seconds.into()))
}

/// The request of the socket.
pub fn read(
    part: &str,
    what: &Attribute,
    directives: &[Attribute],
) -> Result<MonitorRequest, c_int> {
    let period = period(directives)?;
    let every_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    let mut request = MonitorRequest {
        part: part.to_owned(),
        every_ns: (!period.is_zero()).then_some(every_ns),
        pmix: true,
        ..MonitorRequest::default()
    };
    select(&what.value, &mut request)?;
    for Attribute { key, value } in directives {
        match key.as_str() {
            ranks::TARGETS => {
                let Datum::Procs(names) = value else { return Err(status::BAD_PARAM) };
                add(&mut request.targets, names, |it| Ok(Target::Rank(rank(it))))?;
            }
            PIDS => {
                let Datum::NodePids(pids) = value else { return Err(status::BAD_PARAM) };
                add(&mut request.targets, pids, process)?;
            }
            NODES => {
                let Datum::Texts(names) = value else { return Err(status::BAD_PARAM) };
                let node = |it: &CString| Ok(Target::Node { node: NodeName::Name(text(it)?) });
                add(&mut request.targets, names, node)?;
            }
            NODE_NUMBERS => {
                let Datum::Numbers(_, numbers) = value else { return Err(status::BAD_PARAM) };
                let node = |it: &u64| Ok(Target::Node { node: number(*it)? });
                add(&mut request.targets, numbers, node)?;
            }
            "pmix.monitor.tgtdks" => devices(value, &mut request.disks)?,
            "pmix.monitor.tgtnets" => devices(value, &mut request.nets)?,
            "pmix.monitor.local" => request.local_only = value.is_set(),
            _ => {}
        }
    }
    Ok(request)
}

/// The fields, and the devices that selectors name; all if the value is absent.
fn select(value: &Datum, request: &mut MonitorRequest) -> Result<(), c_int> {
    let selectors = match value {
        Datum::Attributes(selectors) if !selectors.is_empty() => selectors,
        Datum::Present | Datum::Number(crate::kind::BOOL, _) => return Ok(()),
        _ => return Err(status::BAD_PARAM),
    };
    let mut fields = Vec::new();
    for Attribute { key, value } in selectors {
        let devices = match key.as_str() {
            "pmix.disk.id" => &mut request.disks,
            "pmix.net.id" => &mut request.nets,
            _ => {
                fields.push(key.clone());
                continue;
            }
        };
        // Without a value it asks for the identity, which is always there.
        if let Some(name) = value.as_text() {
            devices.get_or_insert_default().push(text(name)?);
        }
    }
    request.fields = (!fields.is_empty()).then_some(fields);
    Ok(())
}

/// Adds targets; an empty array is refused, as it may mean all or nothing.
fn add<T>(
    targets: &mut Vec<Target>,
    named: &[T],
    target: impl Fn(&T) -> Result<Target, c_int>,
) -> Result<(), c_int> {
    if named.is_empty() {
        return Err(status::BAD_PARAM);
    }
    for it in named {
        targets.push(target(it)?);
    }
    Ok(())
}

fn rank(ProcName { nspace, rank }: &ProcName) -> RankTarget {
    RankTarget { namespace: nspace.clone(), rank: (*rank != WILDCARD).then_some(*rank) }
}

fn process(NodePid { host, node, pid }: &NodePid) -> Result<Target, c_int> {
    let node = match host {
        Some(host) => NodeName::Name(text(host)?),
        None => NodeName::Number(*node),
    };
    Ok(Target::Pid { pid: (*pid).into(), node: Some(node) })
}

fn number(number: u64) -> Result<NodeName, c_int> {
    u32::try_from(number).map(NodeName::Number).map_err(|_| status::BAD_PARAM)
}

fn devices(value: &Datum, devices: &mut Option<Vec<String>>) -> Result<(), c_int> {
    let Datum::Texts(names) = value else { return Err(status::BAD_PARAM) };
    if names.is_empty() {
        return Err(status::BAD_PARAM);
    }
    for name in names {
        devices.get_or_insert_default().push(text(name)?);
    }
    Ok(())
}

fn text(text: &CStr) -> Result<String, c_int> {
    text.to_str().map(str::to_owned).map_err(|_| status::BAD_PARAM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind;

    fn texts(all: &[&str]) -> Datum {
        Datum::Texts(all.iter().map(|it| CString::new(*it).unwrap()).collect())
    }

    fn read_node(value: Datum, directives: &[Attribute]) -> Result<MonitorRequest, c_int> {
        read("node", &Attribute::new("pmix.monitor.ndresuse", value), directives)
    }

    #[test]
    fn targets_are_the_union_of_all_directives() {
        let name = |rank| ProcName { nspace: "job".to_owned(), rank };
        let pid = NodePid { host: None, node: 7, pid: -1 };
        let directives = [
            Attribute::new(NODES, texts(&["n1", "n2"])),
            Attribute::new(NODE_NUMBERS, Datum::Numbers(kind::UINT32, vec![3])),
            Attribute::new(ranks::TARGETS, Datum::Procs(vec![name(2), name(WILDCARD)])),
            Attribute::new(PIDS, Datum::NodePids(vec![pid])),
            Attribute::new("pmix.monitor.resrate", Datum::Number(kind::UINT32, 2)),
            Attribute::new("pmix.monitor.local", Datum::flag(true)),
        ];
        let request = read_node(Datum::Present, &directives).unwrap();
        let node = |node| Target::Node { node };
        let rank = |rank| Target::Rank(RankTarget { namespace: "job".to_owned(), rank });
        let want = [
            node(NodeName::Name("n1".to_owned())),
            node(NodeName::Name("n2".to_owned())),
            node(NodeName::Number(3)),
            rank(Some(2)),
            rank(None),
            Target::Pid { pid: -1, node: Some(NodeName::Number(7)) },
        ];
        assert_eq!(request.targets, want);
        assert_eq!((request.every_ns, request.local_only), (Some(2_000_000_000), true));
        assert!(names_others(&[], &directives[..1]) && names_others(&[], &directives[2..3]));
        assert!(!names_others(&[], &directives[4..]));
    }

    #[test]
    fn selectors_name_fields_and_devices() {
        let select = |key: &str, value| Attribute::new(key, value);
        let value = Datum::Attributes(vec![
            select("pmix.disk.id", Datum::text("vda")),
            select("pmix.disk.rdscomp", Datum::Present),
        ]);
        let request = read_node(value, &[]).unwrap();
        assert_eq!(request.disks, Some(vec!["vda".to_owned()]));
        assert_eq!(request.fields, Some(vec!["pmix.disk.rdscomp".to_owned()]));
        let only_device = Datum::Attributes(vec![select("pmix.net.id", Datum::text("lo"))]);
        assert_eq!(read_node(only_device, &[]).unwrap().fields, None);
    }

    #[test]
    fn what_would_select_all_or_nothing_is_refused() {
        assert_eq!(read_node(Datum::Attributes(Vec::new()), &[]), Err(status::BAD_PARAM));
        for (key, value) in [
            (NODES, texts(&[])),
            (NODES, Datum::text("n1")),
            (PIDS, Datum::Present),
            (NODE_NUMBERS, texts(&["1"])),
            ("pmix.monitor.tgtdks", texts(&[])),
            ("pmix.monitor.resrate", Datum::text("1")),
        ] {
            let directives = [Attribute::new(key, value)];
            assert_eq!(read_node(Datum::Present, &directives), Err(status::BAD_PARAM), "{key}");
        }
    }
}
