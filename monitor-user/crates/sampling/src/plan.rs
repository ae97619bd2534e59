//! From a request to what is read, chosen and shown.
//!
//! In: names. Out: fields, capabilities, conditions, or a refusal that names what makes no sense.
//! Opens nothing; whether a process or device exists is known when it is read.

use super::fields;
use super::filter::Filter;
use super::grouping::Grouping;
use super::need::{self, Reason};
use super::order::{Direction, Order};
use monitor_format::{Form, Layout};
use monitor_model::field::{Category as _, ProcessField};
use monitor_model::id::{Ns, Pid};
use monitor_model::name;
use monitor_model::pmix::Named as _;
use monitor_model::request::{EMPTY, Rank, Request, Target};
use monitor_model::scope::Scope;
use monitor_model::status::{Refusal, Status};
use monitor_model::want::{Capability, Devices, Want};
use monitor_model::whose::Whose;

/// Fields that are read only if they are shown.
pub const COSTLY: [ProcessField; 6] = [
    ProcessField::Pss,
    ProcessField::Cmdline,
    ProcessField::Cgroup,
    ProcessField::Path,
    ProcessField::User,
    ProcessField::Job,
];
/// Longest name of a device, a namespace or a monitor.
const NAME_BYTES: usize = 255;
/// Most targets of one request.
const TARGETS: usize = 1 << 16;

/// What a request comes to.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What must be attached.
    pub capabilities: Vec<Capability>,
    /// What is read.
    pub want: Want,
    /// Which fields are shown.
    pub layout: Layout,
    /// Which processes, by what they are.
    pub filter: Filter,
    /// Which processes, by name; all, if it is absent.
    pub targets: Option<Targets>,
    /// What they are added up by, if they are.
    pub grouping: Option<Grouping>,
    /// In which order.
    pub order: Option<Order>,
    /// How many at most.
    pub top: Option<usize>,
    /// How often.
    pub every: Option<Ns>,
    /// Under whose names samples are written.
    pub form: Form,
    /// Whether it waits for those who are not there yet.
    pub follow: bool,
}

/// Processes that were named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// By process id.
    pub pids: Vec<Pid>,
    /// By namespace and rank.
    pub ranks: Vec<Rank>,
}

impl Plan {
    /// Resolves a request, or says what of it makes no sense.
    pub fn of(request: &Request) -> Result<Self, Refusal> {
        let scope: Scope = match request.part.as_str() {
            "" => Scope::Processes,
            name => name.parse().map_err(not_offered)?,
        };
        fitting(request, scope)?;
        let layout = fields::layout(request, scope)?;
        let order = request.sort.as_deref().map(order).transpose()?;
        let filter = filter(request);
        let shown = if request.fields.is_some() { &*layout.processes } else { &[] };
        let named: Vec<_> = shown.iter().copied().chain(order.map(|order| order.field)).collect();
        let grouping = Grouping::of(request, order)?;
        let targets = targets(&request.targets)?;
        Ok(Self {
            capabilities: need::capabilities(scope, &reasons(request)?, &named),
            want: want((request, grouping), &layout, (&filter, targets.as_ref())),
            layout,
            filter,
            targets,
            grouping,
            order,
            top: request.top.map(|top| top as usize),
            every: request.every_ns.map(Ns),
            form: if request.pmix { Form::Pmix } else { Form::Json },
            follow: request.follow,
        })
    }

    /// Whether one process is all that a reading must look at, by its number alone.
    pub fn pids_only(&self) -> Option<&[Pid]> {
        self.targets.as_ref().filter(|it| it.ranks.is_empty()).map(|it| &*it.pids)
    }
}

/// A part that no service of this kind has.
fn not_offered(unknown: name::Unknown) -> Refusal {
    Refusal::new(Status::NotSupported, unknown.to_string())
}

/// Refuses what cannot be together, and names that no kernel has.
fn fitting(request: &Request, scope: Scope) -> Result<(), Refusal> {
    if request.targets.len() > TARGETS {
        let n = request.targets.len();
        return Err(Refusal::limit(format!("{n} targets: at most {TARGETS} in one request")));
    }
    let ranks = request.targets.iter().filter_map(|it| match it {
        Target::Rank(rank) => Some(&rank.namespace),
        _ => None,
    });
    let devices = [("disks", &request.disks), ("nets", &request.nets)];
    let empty = |&&(_, list): &&(_, &Option<Vec<_>>)| list.as_ref().is_some_and(Vec::is_empty);
    if let Some((key, _)) = devices.iter().find(empty) {
        return Err(Refusal::bad(format!("{key}: {EMPTY}")));
    }
    let devices = devices.iter().filter_map(|(_, list)| list.as_ref()).flatten();
    for name in devices.chain(request.id.iter()).chain(ranks) {
        proper(name)?;
    }
    match of_processes(request).filter(|_| !scope.processes()) {
        Some(key) => Err(Refusal::bad(format!("{key} is of processes, not of {}", scope.name()))),
        None => Ok(()),
    }
}

/// A name that can be one: not empty, not too long, without control characters.
pub fn proper(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > NAME_BYTES || name.chars().any(char::is_control) {
        let shown: String = name.chars().take(20).collect();
        return Err(Refusal::bad(format!(
            "name {shown:?}: a name has 1 to {NAME_BYTES} bytes and no control characters"
        )));
    }
    Ok(())
}

/// The first key given that speaks of processes.
fn of_processes(request: &Request) -> Option<&'static str> {
    let given = [
        ("comms", !request.comms.is_empty()),
        ("uids", !request.uids.is_empty()),
        ("cgroups", !request.cgroups.is_empty()),
        ("top", request.top.is_some()),
        ("sort", request.sort.is_some()),
        ("threads", request.threads),
        ("group_by", request.group_by.is_some()),
        ("histograms", request.histograms),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(key, _)| key)
}

/// What the capabilities that were named are asked for by.
fn reasons(request: &Request) -> Result<Vec<Reason>, Refusal> {
    let names = Capability::ALL.iter().map(|it| it.name());
    let place = |written: &String| name::position("capability", names.clone(), written);
    request.capabilities.iter().map(|it| Ok(need::reason(Capability::ALL[place(it)?]))).collect()
}

/// `-FIELD` or `FIELD` the largest first, `+FIELD` the smallest.
pub fn order(written: &str) -> Result<Order, Refusal> {
    let (direction, name) = match written.strip_prefix('+') {
        Some(name) => (Direction::Ascending, name),
        None => (Direction::Descending, written.strip_prefix('-').unwrap_or(written)),
    };
    let name = name.trim();
    let field = match ProcessField::alias(name) {
        Some(field) => field,
        None => {
            let place = name::position("field", fields::names::<ProcessField>(), name)?;
            ProcessField::at(place).expect("the place is in the list")
        }
    };
    if Order::possible(field) {
        return Ok(Order { field, direction });
    }
    Err(Refusal::bad(format!("cannot sort by {name}: choose a number or comm")))
}

fn filter(request: &Request) -> Filter {
    Filter {
        pids: Vec::new(),
        comms: request.comms.clone(),
        uids: request.uids.clone(),
        cgroups: request.cgroups.clone(),
    }
}

/// The union of all targets, whatever their order. A node that is named alone means all of it;
/// which node, was decided before.
fn targets(all: &[Target]) -> Result<Option<Targets>, Refusal> {
    let mut targets = Targets::default();
    for target in all {
        match target {
            Target::Pid { pid: -1, .. } | Target::Node { .. } => return Ok(None),
            Target::Pid { pid, .. } => match u32::try_from(*pid) {
                Ok(pid @ 1..) => targets.pids.push(Pid(pid)),
                _ => return Err(Refusal::bad(format!("pid {pid}: a process id, or -1 for all"))),
            },
            Target::Rank(rank) => targets.ranks.push(rank.clone()),
        }
    }
    targets.pids.sort_unstable();
    targets.pids.dedup();
    Ok((!all.is_empty()).then_some(targets))
}

fn want(
    (request, grouping): (&Request, Option<Grouping>),
    layout: &Layout,
    (filter, targets): (&Filter, Option<&Targets>),
) -> Want {
    let scope = layout.scope;
    let listed = |field: &ProcessField| match grouping {
        Some(grouping) => grouping.needs(*field, &layout.processes),
        None => layout.processes.contains(field),
    };
    // Ranks are found by what tells of jobs; in PMIx they are what names a process.
    let named = targets.is_some_and(|it| !it.ranks.is_empty());
    let ranks = named || (request.pmix && scope.processes());
    let shown = |field: &ProcessField| {
        listed(field)
            || (*field == ProcessField::Cgroup && !filter.cgroups.is_empty())
            || (*field == ProcessField::Job && ranks)
    };
    let pids = targets.filter(|it| it.ranks.is_empty()).map(|it| it.pids.clone());
    let every = request.fields.is_none();
    let no_device = layout.disks.is_empty() && layout.nets.is_empty();
    let no_number = layout.node.is_empty() && layout.cpus.is_empty();
    Want {
        processes: scope.processes() && (every || !layout.processes.is_empty()),
        pids,
        threads: request.threads,
        costly: COSTLY.into_iter().filter(shown).collect(),
        // Who looks knows of whom.
        pss_of: Whose::default(),
        node: scope.node() && (every || !no_number || (no_device && layout.processes.is_empty())),
        disks: devices(scope.disks() && !layout.disks.is_empty(), request.disks.as_ref()),
        nets: devices(scope.nets() && !layout.nets.is_empty(), request.nets.as_ref()),
    }
}

fn devices(wanted: bool, named: Option<&Vec<String>>) -> Devices {
    match named {
        _ if !wanted => Devices::None,
        None => Devices::All,
        Some(names) => Devices::Named(names.iter().map(|it| it.as_str().into()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(request: &Request, want: &str) {
        let refusal = Plan::of(request).expect_err("it makes no sense");
        assert_eq!(refusal.message, want);
    }

    #[test]
    fn targets_are_a_union_whatever_their_order() {
        let pid = |pid| Target::Pid { pid, node: None };
        let of = |targets: Vec<Target>| {
            Plan::of(&Request { targets, ..Request::default() }).expect("a plan").targets
        };
        assert_eq!(of(vec![pid(7), pid(3), pid(7)]), of(vec![pid(3), pid(7)]));
        assert_eq!(of(vec![pid(7), pid(-1)]), None);
        assert_eq!(of(vec![pid(-1), pid(7)]), None);
    }

    #[test]
    fn a_process_id_that_cannot_be_one_is_refused() {
        for pid in [0, -2, 1 << 40] {
            let targets = vec![Target::Pid { pid, node: None }];
            let request = Request { targets, ..Request::default() };
            refused(&request, &format!("pid {pid}: a process id, or -1 for all"));
        }
    }

    #[test]
    fn a_name_that_no_device_has_is_refused() {
        let disk = Request { part: "disk".into(), ..Request::default() };
        let long = Request { disks: Some(vec!["x".repeat(256)]), ..disk };
        assert!(Plan::of(&long).is_err());
        let none = Request { nets: Some(Vec::new()), ..Request::default() };
        refused(&none, "nets: an empty list; leave it out for all");
        let control = Request { nets: Some(vec!["a\n".into()]), ..Request::default() };
        assert!(Plan::of(&control).is_err_and(|it| it.message.starts_with("name \"a\\n\"")));
    }
}
