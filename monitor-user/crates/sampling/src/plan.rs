//! The plan of a request: what is read, selected and shown.
//!
//! In: names. Out: fields, capabilities and filters, or a refusal that names the mistake. Opens
//! nothing; whether a process or device exists is known when it is read.

use super::capability_deps::{self, CapabilityReason};
use super::expression::{self, Expression};
use super::order::{Direction, Order};
use super::{fields, filter::Filter, grouping::Grouping};
use monitor_format::{Layout, OutputFormat};
use monitor_model::{
    Capability, Devices, MonitorRequest, Ns, Pid, ProcessField, ProcessFilter, RankTarget,
    ReadSpec, Refusal, Scope, Status, Target, name, request::EMPTY,
};

/// Fields that are read only if they are shown.
pub const COSTLY: [ProcessField; 6] = [
    ProcessField::Pss,
    ProcessField::Cmdline,
    ProcessField::Cgroup,
    ProcessField::Path,
    ProcessField::User,
    ProcessField::Job,
];
/// Maximum length of the name of a device, a namespace or a monitor.
const MAX_NAME_BYTES: usize = 255;
/// Maximum number of targets of one request.
const MAX_TARGETS: usize = 1 << 16;

/// A resolved request.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The capabilities to attach.
    pub capabilities: Vec<Capability>,
    /// What is read.
    pub read_spec: ReadSpec,
    /// The fields to show.
    pub layout: Layout,
    /// The filter of processes.
    pub filter: Filter,
    /// The condition of processes or groups.
    pub condition: Option<Expression>,
    /// The named processes; all if `None`.
    pub targets: Option<Targets>,
    /// The grouping, if any.
    pub grouping: Option<Grouping>,
    /// The order of processes or groups.
    pub order: Option<Order>,
    /// Maximum number of rows.
    pub top: Option<usize>,
    /// The period; one sample if `None`.
    pub every: Option<Ns>,
    /// The format of samples.
    pub form: OutputFormat,
    /// Whether it waits for targets that do not exist yet.
    pub follow: bool,
}

/// Named processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// By process id.
    pub pids: Vec<Pid>,
    /// By namespace and rank.
    pub ranks: Vec<RankTarget>,
}

impl Plan {
    /// Resolves a request.
    ///
    /// # Errors
    /// If a name is unknown or two parts contradict each other.
    pub fn from_request(request: &MonitorRequest) -> Result<Self, Refusal> {
        let scope: Scope = match request.part.as_str() {
            "" => Scope::Processes,
            name => name.parse().map_err(not_offered)?,
        };
        check_request(request, scope)?;
        let layout = fields::layout(request, scope)?;
        let order = request.sort.as_deref().map(order).transpose()?;
        let filter = filter(request);
        let condition = request.filter.as_deref().map(condition).transpose()?;
        let shown = if request.fields.is_some() { &*layout.processes } else { &[] };
        let mut compared = condition.as_ref().map(Expression::fields).unwrap_or_default();
        let named = shown.iter().chain(&compared).copied().chain(order.map(|order| order.field));
        let named: Vec<_> = named.collect();
        compared.extend((!filter.cgroups.is_empty()).then_some(ProcessField::Cgroup));
        let grouping = Grouping::from_request(request, order)?;
        if let (Some(grouping), Some(condition)) = (grouping, &condition) {
            grouping.check(condition)?;
        }
        let targets = targets(&request.targets)?;
        Ok(Self {
            capabilities: capability_deps::capabilities(scope, &reasons(request)?, &named),
            read_spec: read_spec((request, grouping), &layout, (&compared, targets.as_ref())),
            layout,
            filter,
            condition,
            targets,
            grouping,
            order,
            top: request.top.map(|top| top as usize),
            every: request.every_ns.map(Ns),
            form: if request.pmix { OutputFormat::Pmix } else { OutputFormat::Json },
            follow: request.follow,
        })
    }

    /// The process ids, if these are all targets.
    pub fn pids_only(&self) -> Option<&[Pid]> {
        self.targets.as_ref().filter(|it| it.ranks.is_empty()).map(|it| &*it.pids)
    }
}

/// The refusal of an unknown part.
fn not_offered(unknown: name::UnknownName) -> Refusal {
    Refusal::new(Status::NotSupported, unknown.to_string())
}

/// Refuses parts that contradict each other, and invalid names.
fn check_request(request: &MonitorRequest, scope: Scope) -> Result<(), Refusal> {
    if request.targets.len() > MAX_TARGETS {
        let n = request.targets.len();
        return Err(Refusal::limit(format!("{n} targets: at most {MAX_TARGETS} in one request")));
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
        check_name(name)?;
    }
    match process_key(request).filter(|_| !scope.processes()) {
        Some(key) => {
            Err(Refusal::bad(format!("{key} applies to processes, not to {}", scope.name())))
        }
        None => Ok(()),
    }
}

/// Checks a name: not empty, not too long, no control characters.
///
/// # Errors
/// If the name is invalid.
pub fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        let shown: String = name.chars().take(20).collect();
        return Err(Refusal::bad(format!(
            "name {shown:?}: a name has 1 to {MAX_NAME_BYTES} bytes and no control characters"
        )));
    }
    Ok(())
}

/// The first given key that applies to processes.
fn process_key(request: &MonitorRequest) -> Option<&'static str> {
    let given = [
        ("comms", !request.comms.is_empty()),
        ("uids", !request.uids.is_empty()),
        ("cgroups", !request.cgroups.is_empty()),
        ("filter", request.filter.is_some()),
        ("top", request.top.is_some()),
        ("sort", request.sort.is_some()),
        ("threads", request.threads),
        ("group_by", request.group_by.is_some()),
        ("histograms", request.histograms),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(key, _)| key)
}

/// The reasons of the named capabilities.
fn reasons(request: &MonitorRequest) -> Result<Vec<CapabilityReason>, Refusal> {
    let names = Capability::ALL.iter().map(|it| it.name());
    let position = |written: &String| name::position("capability", names.clone(), written);
    request
        .capabilities
        .iter()
        .map(|it| Ok(capability_deps::reason(Capability::ALL[position(it)?])))
        .collect()
}

/// Parses an order: `-FIELD` or `FIELD` for the largest first, `+FIELD` for the smallest.
///
/// # Errors
/// If the field is unknown or cannot be sorted by.
pub fn order(written: &str) -> Result<Order, Refusal> {
    let (direction, name) = match written.strip_prefix('+') {
        Some(name) => (Direction::Ascending, name),
        None => (Direction::Descending, written.strip_prefix('-').unwrap_or(written)),
    };
    let name = name.trim();
    let field = ProcessField::named(name)?;
    if Order::is_sortable(field) {
        return Ok(Order { field, direction });
    }
    Err(Refusal::bad(format!("cannot sort by {name}: choose a number or comm")))
}

fn condition(text: &str) -> Result<Expression, Refusal> {
    expression::parse(text).map_err(|fault| Refusal::bad(fault.in_text("filter", text)))
}

fn filter(request: &MonitorRequest) -> Filter {
    Filter {
        pids: Vec::new(),
        comms: request.comms.clone(),
        uids: request.uids.clone(),
        cgroups: request.cgroups.clone(),
    }
}

/// The union of all targets, in any order. A node alone means all its processes; the node was
/// selected before.
fn targets(all: &[Target]) -> Result<Option<Targets>, Refusal> {
    let mut targets = Targets::default();
    for target in all {
        match target {
            Target::Pid { pid: -1, .. } | Target::Node { .. } => return Ok(None),
            Target::Pid { pid, .. } => match u32::try_from(*pid) {
                Ok(pid @ 1..) => targets.pids.push(Pid(pid)),
                _ => {
                    return Err(Refusal::bad(format!(
                        "pid {pid}: expected a process id, or -1 for all"
                    )));
                }
            },
            Target::Rank(rank) => targets.ranks.push(rank.clone()),
        }
    }
    targets.pids.sort_unstable();
    targets.pids.dedup();
    Ok((!all.is_empty()).then_some(targets))
}

fn read_spec(
    (request, grouping): (&MonitorRequest, Option<Grouping>),
    layout: &Layout,
    (compared, targets): (&[ProcessField], Option<&Targets>),
) -> ReadSpec {
    let scope = layout.scope;
    let listed = |field: &ProcessField| match grouping {
        Some(grouping) => grouping.needs(*field, &layout.processes),
        None => layout.processes.contains(field),
    };
    // Ranks come from the field `job`; in PMIx a rank names a process.
    let named = targets.is_some_and(|it| !it.ranks.is_empty());
    let ranks = named || (request.pmix && scope.processes());
    let shown = |field: &ProcessField| {
        listed(field) || compared.contains(field) || (*field == ProcessField::Job && ranks)
    };
    let pids = targets.filter(|it| it.ranks.is_empty()).map(|it| it.pids.clone());
    let every = request.fields.is_none();
    let no_device = layout.disks.is_empty() && layout.nets.is_empty();
    let no_number = layout.node.is_empty() && layout.cpus.is_empty();
    ReadSpec {
        processes: scope.processes() && (every || !layout.processes.is_empty()),
        pids,
        threads: request.threads,
        costly: COSTLY.into_iter().filter(shown).collect(),
        // The consumer sets it.
        pss_of: ProcessFilter::default(),
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
    fn refused(request: &MonitorRequest, want: &str) {
        let refusal = Plan::from_request(request).expect_err("the request is invalid");
        assert_eq!(refusal.message, want);
    }

    #[test]
    fn targets_are_a_union_in_any_order() {
        let pid = |pid| Target::Pid { pid, node: None };
        let planned = |targets: Vec<Target>| {
            Plan::from_request(&MonitorRequest { targets, ..MonitorRequest::default() })
                .expect("a plan")
                .targets
        };
        assert_eq!(planned(vec![pid(7), pid(3), pid(7)]), planned(vec![pid(3), pid(7)]));
        assert_eq!(planned(vec![pid(7), pid(-1)]), None);
        assert_eq!(planned(vec![pid(-1), pid(7)]), None);
    }

    #[test]
    fn an_invalid_process_id_is_refused() {
        for pid in [0, -2, 1 << 40] {
            let targets = vec![Target::Pid { pid, node: None }];
            let request = MonitorRequest { targets, ..MonitorRequest::default() };
            refused(&request, &format!("pid {pid}: expected a process id, or -1 for all"));
        }
    }

    #[test]
    fn a_condition_reads_what_it_compares() {
        let request = |filter: &str| MonitorRequest {
            fields: Some(vec!["comm".into()]),
            filter: Some(filter.into()),
            ..MonitorRequest::default()
        };
        let plan = Plan::from_request(&request("path ~ bin and block_read_bytes > 0"));
        let plan = plan.expect("a plan");
        assert!(plan.read_spec.wants(ProcessField::Path) && plan.condition.is_some());
        assert!(plan.capabilities.contains(&Capability::Block));
        assert_eq!(plan.layout.processes.last(), Some(&ProcessField::Comm));
        refused(&request("cpu >"), "filter, column 6: a value is missing after >");
        let of_node = MonitorRequest { part: "node".into(), fields: None, ..request("cpu > 1") };
        refused(&of_node, "filter applies to processes, not to node");
        let groups = |filter: &str| MonitorRequest {
            group_by: Some("user".into()),
            fields: Some(vec!["cpu_ns".into()]),
            ..request(filter)
        };
        assert!(Plan::from_request(&groups("user ~ ro and rss > 1M or root")).is_ok());
        let why = "filter: comm is of one process: groups by user have user and sums";
        refused(&groups("rss > 1M and comm = sh"), why);
    }

    #[test]
    fn an_invalid_device_name_is_refused() {
        let disk = MonitorRequest { part: "disk".into(), ..MonitorRequest::default() };
        let long = MonitorRequest { disks: Some(vec!["x".repeat(256)]), ..disk };
        assert!(Plan::from_request(&long).is_err());
        let none = MonitorRequest { nets: Some(Vec::new()), ..MonitorRequest::default() };
        refused(&none, "nets: an empty list; leave it out for all");
        let control =
            MonitorRequest { nets: Some(vec!["a\n".into()]), ..MonitorRequest::default() };
        assert!(
            Plan::from_request(&control).is_err_and(|it| it.message.starts_with("name \"a\\n\""))
        );
    }
}
