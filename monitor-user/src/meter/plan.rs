//! From a request to what is read, chosen and shown.
//!
//! In: names. Out: fields, capabilities, conditions, or a refusal that names what makes no sense.
//! Opens nothing; whether a process or device exists is known when it is read.

use super::filter::Filter;
use super::grouping::Grouping;
use super::need::{self, Reason};
use super::order::{Direction, Order};
use crate::format::{Form, Layout};
use crate::model::field::{Category, CpuField, DiskField, NetField, NodeField, ProcessField};
use crate::model::id::{Ns, Pid};
use crate::model::name;
use crate::model::pmix::{self, Named};
use crate::model::request::{Rank, Request, Target};
use crate::model::scope::Scope;
use crate::model::status::{Refusal, Status};
use crate::model::want::{Capability, Devices, Want};

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
        let layout = layout(request, scope)?;
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
    let devices = [&request.disks, &request.nets].into_iter().flatten().flatten();
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

/// The fields to show. Of categories that go together, each name is looked for in the main one
/// first; `disk.` or `net.` before it says which is meant. Those without a named field are
/// left out.
fn layout(request: &Request, scope: Scope) -> Result<Layout, Refusal> {
    let signals = request.capabilities.iter().any(|it| it == Capability::Signals.name());
    let histograms = request.histograms;
    let Some(names) = &request.fields else {
        let all = Layout { signals, histograms, ..Layout::all(scope) };
        return Ok(if request.pmix { known_to_pmix(all) } else { all });
    };
    if names.is_empty() {
        return Err(Refusal::bad("fields: an empty list; leave it out for all fields"));
    }
    let mut layout = Layout { signals, histograms, ..named(names, scope)? };
    identify(&mut layout.processes, &[ProcessField::Pid, ProcessField::StartTime]);
    identify(&mut layout.disks, &[DiskField::Device]);
    identify(&mut layout.nets, &[NetField::Interface]);
    Ok(layout)
}

/// The fields with these names and no others, in their order.
pub fn named(names: &[String], scope: Scope) -> Result<Layout, Refusal> {
    let mut layout = Layout::all(scope);
    layout.processes.clear();
    layout.node.clear();
    layout.cpus.clear();
    layout.disks.clear();
    layout.nets.clear();
    for name in names {
        place(&mut layout, name.trim())?;
    }
    Ok(layout)
}

/// All fields that PMIx has names for.
fn known_to_pmix(mut layout: Layout) -> Layout {
    layout.processes = ProcessField::NAMES.iter().map(|it| it.field).collect();
    layout.node = NodeField::NAMES.iter().map(|it| it.field).collect();
    layout.cpus.clear();
    layout.disks = DiskField::NAMES.iter().map(|it| it.field).collect();
    layout.nets = NetField::NAMES.iter().map(|it| it.field).collect();
    layout
}

/// What names an object comes first, asked for or not.
fn identify<F: Category>(fields: &mut Vec<F>, by: &[F]) {
    if !fields.is_empty() {
        fields.retain(|it| !by.contains(it));
        fields.splice(..0, by.iter().copied());
    }
}

fn place(layout: &mut Layout, name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::bad("a field without a name; see monitor fields"));
    }
    let scope = layout.scope;
    let (kind, bare) = match name.split_once('.') {
        Some((kind, bare)) if CATEGORIES.contains(&kind) => (Some(kind), bare),
        _ => (None, name),
    };
    let takes = |category: &str| kind.is_none_or(|kind| kind == category);
    let taken = (scope.processes() && takes("proc") && push(&mut layout.processes, bare))
        || (scope.node() && takes("node") && push(&mut layout.node, bare))
        || (scope.node() && takes("cpu") && push_cpu(&mut layout.cpus, bare))
        || (scope.disks() && takes("disk") && push(&mut layout.disks, bare))
        || (scope.nets() && takes("net") && push(&mut layout.nets, bare));
    if taken { Ok(()) } else { Err(unknown(scope, bare)) }
}

/// What can stand before a field's name.
const CATEGORIES: [&str; 5] = ["proc", "node", "cpu", "disk", "net"];

/// PMIx has no names for processors.
fn push_cpu(fields: &mut Vec<CpuField>, name: &str) -> bool {
    let field = CpuField::named(name);
    fields.extend(field);
    field.is_some()
}

fn push<F: Named>(fields: &mut Vec<F>, name: &str) -> bool {
    let field: Option<F> = pmix::field(name);
    fields.extend(field);
    field.is_some()
}

fn unknown(scope: Scope, written: &str) -> Refusal {
    let names: Vec<&str> = match scope {
        Scope::Processes | Scope::All => names::<ProcessField>().collect(),
        Scope::Node => {
            names::<NodeField>().chain(names::<DiskField>()).chain(names::<NetField>()).collect()
        }
        Scope::Disks => names::<DiskField>().collect(),
        Scope::Nets => names::<NetField>().collect(),
    };
    match name::position("field", names.into_iter(), written) {
        Err(unknown) => unknown.into(),
        Ok(_) => Refusal::bad(format!("field {written:?} is not of {}", scope.name())),
    }
}

fn names<F: Category>() -> impl Iterator<Item = &'static str> + Clone {
    F::FIELDS.iter().map(|field| field.name)
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
            let place = name::position("field", names::<ProcessField>(), name)?;
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
    // Ranks are found by what tells of jobs.
    let ranks = targets.is_some_and(|it| !it.ranks.is_empty());
    let shown = |field: &ProcessField| {
        listed(field)
            || (*field == ProcessField::Cgroup && !filter.cgroups.is_empty())
            || (*field == ProcessField::Job && ranks)
    };
    let pids = targets.filter(|it| it.ranks.is_empty()).map(|it| it.pids.clone());
    let every = request.fields.is_none();
    Want {
        processes: scope.processes() && (every || !layout.processes.is_empty()),
        pids,
        threads: request.threads,
        costly: COSTLY.into_iter().filter(shown).collect(),
        node: scope.node() && (every || !(layout.node.is_empty() && layout.cpus.is_empty())),
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

    fn request(part: &str, fields: &[&str]) -> Request {
        let fields = fields.iter().map(|&it| it.to_owned()).collect();
        Request { part: part.into(), fields: Some(fields), ..Request::default() }
    }

    #[track_caller]
    fn refused(request: &Request, want: &str) {
        let refusal = Plan::of(request).expect_err("it makes no sense");
        assert_eq!(refusal.message, want);
    }

    #[test]
    fn absent_fields_are_all_and_an_empty_list_is_an_error() {
        let all = Plan::of(&Request::default()).expect("everything");
        assert!(all.layout.processes.len() > 50 && !all.want.wants(ProcessField::Pss));
        refused(&request("proc", &[]), "fields: an empty list; leave it out for all fields");
    }

    #[test]
    fn an_unknown_field_or_capability_is_named_with_the_nearest() {
        refused(&request("proc", &["rss"]), r#"unknown field "rss"; did you mean "rss_bytes"?"#);
        let capabilities = vec!["blok".into()];
        let request = Request { capabilities, ..Request::default() };
        refused(&request, r#"unknown capability "blok"; did you mean "block"?"#);
    }

    #[test]
    fn the_fields_of_a_node_may_name_those_of_its_devices() {
        let names = ["load1", "disk.read_bytes", "sent_bytes"];
        let plan = Plan::of(&request("node", &names)).expect("a plan");
        assert_eq!(plan.layout.node, [NodeField::Load1]);
        assert_eq!(plan.layout.disks, [DiskField::Device, DiskField::ReadBytes]);
        assert_eq!(plan.layout.nets, [NetField::Interface, NetField::SentBytes]);
        let plan = Plan::of(&request("node", &["disk.read_bytes"])).expect("a plan");
        assert!(!plan.want.node && plan.want.nets == Devices::None);
    }

    #[test]
    fn signals_are_told_whatever_fields_are_named() {
        let mut request = request("proc", &["cpu_ns"]);
        assert!(!Plan::of(&request).expect("a plan").layout.signals);
        request.capabilities = vec!["signals".into()];
        assert!(Plan::of(&request).expect("a plan").layout.signals);
    }

    #[test]
    fn the_names_of_pmix_are_names_of_our_fields() {
        let names = ["pmix.node.la", "PMIX_DISK_READ_SECTORS", "pmix.net.sntb"];
        let plan = Plan::of(&request("node", &names)).expect("a plan");
        assert_eq!(plan.layout.node, [NodeField::Load1]);
        assert_eq!(plan.layout.disks, [DiskField::Device, DiskField::ReadBytes]);
        assert_eq!(plan.layout.nets, [NetField::Interface, NetField::SentBytes]);
        assert!(order("+PMIX_PROC_RSS").is_ok_and(|it| it.field == ProcessField::Rss));
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
        let long = Request { disks: Some(vec!["x".repeat(256)]), ..request("disk", &["reads"]) };
        assert!(Plan::of(&long).is_err());
        let control = Request { nets: Some(vec!["a\n".into()]), ..Request::default() };
        assert!(Plan::of(&control).is_err_and(|it| it.message.starts_with("name \"a\\n\"")));
    }
}
