//! The fields that a request names.
//!
//! In: names. Out: the fields to show, in the same order, or a refusal with a suggestion.
//! `plan` and `capability_deps` decide what is read and attached for them.

use monitor_format::Layout;
use monitor_model::field::SHORT;
use monitor_model::{
    Capability, Category, CpuField, DiskField, MonitorRequest, NetField, NodeField, PmixNamed,
    ProcessField, Refusal, Scope, name, pmix,
};

/// The fields to show. A name is searched in the main category first; a prefix such as `disk.` or
/// `net.` selects a category. Categories without a named field are left out.
pub fn layout(request: &MonitorRequest, scope: Scope) -> Result<Layout, Refusal> {
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
        add_field(&mut layout, name.trim())?;
    }
    Ok(layout)
}

/// All fields that PMIx has names for.
fn known_to_pmix(mut layout: Layout) -> Layout {
    layout.processes = ProcessField::all_with_pmix();
    layout.node = NodeField::all_with_pmix();
    layout.cpus.clear();
    layout.disks = DiskField::all_with_pmix();
    layout.nets = NetField::all_with_pmix();
    layout
}

/// The fields that identify an object come first, requested or not.
fn identify<F: Category>(fields: &mut Vec<F>, by: &[F]) {
    if !fields.is_empty() {
        fields.retain(|it| !by.contains(it));
        fields.splice(..0, by.iter().copied());
    }
}

fn add_field(layout: &mut Layout, name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::bad("a field without a name; see monitor fields"));
    }
    let scope = layout.scope;
    let (kind, bare) = match name.split_once('.') {
        Some((kind, bare)) if CATEGORIES.contains(&kind) => (Some(kind), bare),
        _ => (None, name),
    };
    let takes = |category: &str| kind.is_none_or(|kind| kind == category);
    let of_process = |layout: &mut Layout| {
        let short = SHORT.iter().find(|(short, _)| *short == bare);
        let name = short.map_or(bare, |(_, field)| field.field().name);
        push(&mut layout.processes, PID, name)
    };
    let taken = (scope.processes() && takes("proc") && of_process(layout))
        || (scope.node() && takes("node") && push(&mut layout.node, None, bare))
        || (scope.node() && takes("cpu") && push_cpu(&mut layout.cpus, bare))
        || (scope.disks() && takes("disk") && push(&mut layout.disks, DISK, bare))
        || (scope.nets() && takes("net") && push(&mut layout.nets, NET, bare));
    if taken { Ok(()) } else { Err(unknown(scope, bare)) }
}

/// Prefixes of field names.
const CATEGORIES: [&str; 5] = ["proc", "node", "cpu", "disk", "net"];

/// The field for a PMIx name of a value that every sample contains. The name of a node is not a
/// field.
const PID: Option<ProcessField> = Some(ProcessField::Pid);
const DISK: Option<DiskField> = Some(DiskField::Device);
const NET: Option<NetField> = Some(NetField::Interface);

/// PMIx has no names for processors.
fn push_cpu(fields: &mut Vec<CpuField>, name: &str) -> bool {
    let field = CpuField::from_name(name);
    fields.extend(field);
    field.is_some()
}

fn push<F: PmixNamed>(fields: &mut Vec<F>, by: Option<F>, name: &str) -> bool {
    let is_given = F::is_always_present(name);
    let field = if is_given { by } else { pmix::field(name) };
    fields.extend(field);
    is_given || field.is_some()
}

fn unknown(scope: Scope, written: &str) -> Refusal {
    let names: Vec<&str> = match scope {
        Scope::Processes | Scope::All => ProcessField::suggested_names().collect(),
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

/// The names of all fields of a category.
pub fn names<F: Category>() -> impl Iterator<Item = &'static str> + Clone {
    F::FIELDS.iter().map(|field| field.name)
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Plan, order};
    use super::*;
    use monitor_model::read_spec::Devices;

    fn request(part: &str, fields: &[&str]) -> MonitorRequest {
        let fields = fields.iter().map(|&it| it.to_owned()).collect();
        MonitorRequest { part: part.into(), fields: Some(fields), ..MonitorRequest::default() }
    }

    #[track_caller]
    fn refused(request: &MonitorRequest, want: &str) {
        let refusal = Plan::from_request(request).expect_err("it makes no sense");
        assert_eq!(refusal.message, want);
    }

    #[test]
    fn absent_fields_are_all_and_an_empty_list_is_an_error() {
        let all = Plan::from_request(&MonitorRequest::default()).expect("everything");
        assert!(all.layout.processes.len() > 50 && !all.read_spec.wants(ProcessField::Pss));
        refused(&request("proc", &[]), "fields: an empty list; leave it out for all fields");
    }

    #[test]
    fn an_unknown_field_or_capability_is_named_with_the_nearest() {
        refused(&request("proc", &["rsss"]), r#"unknown field "rsss"; did you mean "rss"?"#);
        let capabilities = vec!["blok".into()];
        let request = MonitorRequest { capabilities, ..MonitorRequest::default() };
        refused(&request, r#"unknown capability "blok"; did you mean "block"?"#);
    }

    #[test]
    fn the_fields_of_a_node_may_name_those_of_its_devices() {
        let names = ["load1", "disk.read_bytes", "sent_bytes"];
        let plan = Plan::from_request(&request("node", &names)).expect("a plan");
        assert_eq!(plan.layout.node, [NodeField::Load1]);
        assert_eq!(plan.layout.disks, [DiskField::Device, DiskField::ReadBytes]);
        assert_eq!(plan.layout.nets, [NetField::Interface, NetField::SentBytes]);
        let plan = Plan::from_request(&request("node", &["disk.read_bytes"])).expect("a plan");
        assert!(!plan.read_spec.node && plan.read_spec.nets == Devices::None);
    }

    #[test]
    fn signals_are_shown_whatever_fields_are_named() {
        let mut request = request("proc", &["cpu_ns"]);
        assert!(!Plan::from_request(&request).expect("a plan").layout.signals);
        request.capabilities = vec!["signals".into()];
        assert!(Plan::from_request(&request).expect("a plan").layout.signals);
    }

    #[test]
    fn the_names_of_pmix_are_names_of_our_fields() {
        let names = ["pmix.node.la", "PMIX_DISK_READ_SECTORS", "pmix.net.sntb"];
        let plan = Plan::from_request(&request("node", &names)).expect("a plan");
        assert_eq!(plan.layout.node, [NodeField::Load1]);
        assert_eq!(plan.layout.disks, [DiskField::Device, DiskField::ReadBytes]);
        assert_eq!(plan.layout.nets, [NetField::Interface, NetField::SentBytes]);
        assert!(order("+PMIX_PROC_RSS").is_ok_and(|it| it.field == ProcessField::Rss));
    }

    #[test]
    fn a_short_name_is_of_a_process_only() {
        let plan = Plan::from_request(&request("proc", &["cpu", "proc.rss"])).expect("a plan");
        let want = [ProcessField::CpuPercent, ProcessField::Rss];
        assert_eq!(plan.layout.processes[2..], want);
        assert!(order("+mem").is_ok_and(|it| it.field == ProcessField::Rss));
        refused(&request("net", &["sent"]), r#"unknown field "sent"; did you mean "sent_bytes"?"#);
    }

    #[test]
    fn what_every_sample_has_may_be_named_and_adds_nothing() {
        let given = ["PMIX_PROCID", "pmix.hname", "PMIX_PROC_SAMPLE_TIME"];
        let plan = Plan::from_request(&request("proc", &given)).expect("a plan");
        assert_eq!(plan.layout.processes, [ProcessField::Pid, ProcessField::StartTime]);
        let given = ["PMIX_HOSTNAME", "pmix.nodeid", "pmix.disk.samptime"];
        let plan = Plan::from_request(&request("node", &given[..2])).expect("a plan");
        assert!(plan.layout.node.is_empty() && plan.read_spec.node, "its name alone");
        let plan = Plan::from_request(&request("node", &given)).expect("a plan");
        assert!(plan.layout.disks == [DiskField::Device] && !plan.read_spec.node);
    }
}
