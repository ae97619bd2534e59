//! From the words of the command line to what is read, chosen and printed.
//!
//! Every name is checked here, before anything is opened. What is asked for and cannot be
//! together is told in one line.

use super::args::Reading;
use super::columns::{self, Pace};
use super::exit::Failure;
use monitor_format::{Form, Layout};
use monitor_model::field::{Category, GroupField, ProcessField};
use monitor_model::group::sum;
use monitor_model::id::Ns;
use monitor_model::request::{Request, Target};
use monitor_model::scope::Scope;
use monitor_model::want::{Capability, Want};
use monitor_sampling::fields;
use monitor_sampling::filter::Filter;
use monitor_sampling::group::Groups;
use monitor_sampling::need::Reason;
use monitor_sampling::pick::Picker;
use monitor_sampling::plan;

/// What is to be done.
pub struct Plan {
    /// What a daemon would be asked for.
    pub request: Request,
    /// What must be attached.
    pub capabilities: Vec<Capability>,
    /// What is read.
    pub want: Want,
    /// Which rows are shown.
    pub picker: Picker,
    /// By what they are added up, if they are.
    pub groups: Option<Groups>,
    /// Which fields of them.
    pub layout: Layout,
    /// In which form.
    pub form: Form,
}

impl Plan {
    /// Resolves the words, or says which of them make no sense.
    pub fn resolve(words: &Reading, pace: Pace) -> Result<Self, Failure> {
        possible(words)?;
        let words = &ungrouped(words)?;
        let switches = switches(words);
        let shown = layout(words, &switches, pace)?;
        let request = Request {
            part: words.part.name().into(),
            fields: fields(words, &shown),
            targets: words.pid.iter().map(|&pid| target(pid)).collect(),
            disks: devices(words, Scope::Disks),
            nets: devices(words, Scope::Nets),
            comms: words.comm.clone(),
            uids: words.uid.clone(),
            cgroups: words.cgroup.clone(),
            sort: sort(words, pace),
            top: words.top,
            threads: words.threads,
            capabilities: switches.iter().filter_map(|it| capability(*it)).collect(),
            pmix: words.form() == Form::Pmix,
            group_by: words.group_by.map(|by| by.name().into()),
            keep_ns: words.group_by.map(|_| Ns::from(words.keep).0),
            ..Request::default()
        };
        sums(words, &shown, request.sort.as_deref())?;
        let plan = plan::Plan::of(&request)?;
        let pids = plan.pids_only().unwrap_or_default().to_vec();
        Ok(Self {
            capabilities: plan.capabilities,
            want: plan.want,
            groups: plan.grouping.map(|it| Groups::new(it.by, it.limits)),
            picker: Picker::new(Filter { pids, ..plan.filter }, plan.order, plan.top),
            // JSON is what a daemon would send.
            layout: if as_sent(words.form()) { plan.layout } else { shown },
            form: words.form(),
            request,
        })
    }
}

/// Whether a form is what a daemon would send.
const fn as_sent(form: Form) -> bool {
    matches!(form, Form::Json | Form::Pmix)
}

/// Refuses what cannot be together.
fn possible(words: &Reading) -> Result<(), Failure> {
    let part = Scope::NAMES[words.part as usize];
    if let (Some(device), false) = (words.device.first(), has_devices(words.part)) {
        let why = format!("{device:?} after {part}: devices are named after disk or net");
        return Err(Failure::usage(why));
    }
    let of_rows = words.form().of_rows();
    if let (Some(form), Scope::All) = (of_rows, words.part) {
        return Err(Failure::usage(format!(
            "{form} has rows of one kind: choose proc, node, disk or net instead of all"
        )));
    }
    let prometheus = (words.form() == Form::Prometheus).then_some("prometheus");
    if let (Some(form), true) = (of_rows.or(prometheus), words.signals) {
        return Err(Failure::usage(format!(
            "{form} has no place for --signals: use table or json"
        )));
    }
    if words.threads && words.group_by.is_some() {
        return Err(Failure::usage(
            "--threads has a row for each thread, --group-by for many processes",
        ));
    }
    match of_processes(words).filter(|_| !words.part.processes()) {
        Some(option) => Err(Failure::usage(format!("{option} is of processes, not of {part}"))),
        None => Ok(()),
    }
}

const fn has_devices(part: Scope) -> bool {
    matches!(part, Scope::Disks | Scope::Nets)
}

/// The words without fields of groups, which are told of every group and are of nothing else.
fn ungrouped(words: &Reading) -> Result<Reading, Failure> {
    let of_group =
        |name: &String| GroupField::named(name).is_some() && ProcessField::named(name).is_none();
    let mut rest = words.clone();
    let of_groups: Vec<_> = rest.fields.extract_if(.., |name| of_group(name)).collect();
    let Some(name) = of_groups.first().filter(|_| words.part.processes()) else {
        return Ok(words.clone());
    };
    match words.group_by {
        None => Err(Failure::usage(format!("{name} is of a group: --group-by tells it"))),
        Some(_) if rest.fields.is_empty() => Err(Failure::usage(format!(
            "{name} is told of every group: name what to add up of its processes"
        ))),
        Some(_) => Ok(rest),
    }
}

/// The first option given that speaks of processes.
fn of_processes(words: &Reading) -> Option<&'static str> {
    let given = [
        ("--pid", !words.pid.is_empty()),
        ("--comm", !words.comm.is_empty()),
        ("--uid", !words.uid.is_empty()),
        ("--cgroup", !words.cgroup.is_empty()),
        ("--top", words.top.is_some()),
        ("--sort", words.sort.is_some()),
        ("--group-by", words.group_by.is_some()),
        ("--threads", words.threads),
        ("--disk", words.disk),
        ("--net", words.net),
        ("--runqlat", words.runqlat),
        ("--exact-cpu", words.exact_cpu),
        ("--signals", words.signals),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
}

fn switches(words: &Reading) -> Vec<Reason> {
    let given = [
        (Reason::Disk, words.disk),
        (Reason::WriteBack, words.writeback),
        (Reason::Net, words.net),
        (Reason::RunQueue, words.runqlat),
        (Reason::ExactCpu, words.exact_cpu),
        (Reason::Signals, words.signals),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(reason, _)| reason).collect()
}

/// The fields to print, in the order in which they were named.
fn layout(words: &Reading, switches: &[Reason], pace: Pace) -> Result<Layout, Failure> {
    if !words.fields.is_empty() {
        let named = fields::named(&words.fields, words.part)?;
        return Ok(Layout { signals: words.signals, ..named });
    }
    let mut layout = match words.form() {
        Form::Table => columns::table(words.part, switches, (pace, words.threads)),
        _ => Layout::all(words.part),
    };
    layout.signals = words.signals;
    Ok(layout)
}

/// Refuses a field that makes no sense of a group, in the words of this command.
fn sums(words: &Reading, shown: &Layout, sort: Option<&str>) -> Result<(), Failure> {
    let sort = sort.map(plan::order).transpose()?;
    let named = if words.fields.is_empty() { &[][..] } else { &shown.processes };
    let mut fields = named.iter().copied().chain(sort.map(|order| order.field));
    match fields.find(|field| words.group_by.is_some() && sum(*field).is_none()) {
        Some(field) => {
            let name = field.field().name;
            Err(Failure::usage(format!("{name} is of one process: --group-by has no sum of it")))
        }
        None => Ok(()),
    }
}

/// The fields to ask for: those that were named, or those of the table; all for the other forms.
fn fields(words: &Reading, shown: &Layout) -> Option<Vec<String>> {
    let mut names = words.fields.clone();
    if words.form() == Form::Table {
        if names.is_empty() {
            names.extend(qualified("proc", &summed(words, &shown.processes)));
            names.extend(qualified("node", &shown.node).filter(|_| words.part.node()));
            names.extend(qualified("disk", &shown.disks).filter(|_| words.part.disks()));
            names.extend(qualified("net", &shown.nets).filter(|_| words.part.nets()));
        }
        // The table dims those that have ended.
        if !shown.processes.is_empty() && words.group_by.is_none() {
            names.extend(qualified("proc", &[ProcessField::Ended]));
        }
        if !words.part.processes() {
            names.retain(|name| !name.starts_with("proc."));
        }
    }
    (!names.is_empty()).then_some(names)
}

/// Of a group only what can be added up.
fn summed(words: &Reading, fields: &[ProcessField]) -> Vec<ProcessField> {
    let adds = |field: &&ProcessField| words.group_by.is_none() || sum(**field).is_some();
    fields.iter().filter(adds).copied().collect()
}

/// Names that say of what they are.
fn qualified<F: Category>(of: &str, fields: &[F]) -> impl Iterator<Item = String> {
    fields.iter().map(move |it| format!("{of}.{}", it.field().name))
}

/// What to sort by: as written, else CPU where rows are many or only the first are wanted.
fn sort(words: &Reading, pace: Pace) -> Option<String> {
    if words.sort.is_some() || !words.part.processes() {
        return words.sort.clone();
    }
    let sorted = words.form() == Form::Table || words.top.is_some();
    let cpu = match pace {
        Pace::Once => ProcessField::CpuTime,
        Pace::Again => ProcessField::CpuPercent,
    };
    sorted.then(|| cpu.field().name.into())
}

fn target(pid: u32) -> Target {
    Target::Pid { pid: pid.into(), node: None }
}

fn devices(words: &Reading, part: Scope) -> Option<Vec<String>> {
    (words.part == part && !words.device.is_empty()).then(|| words.device.clone())
}

/// What a switch asks for, by name.
fn capability(switch: Reason) -> Option<String> {
    let of = |it: &&Capability| monitor_sampling::need::reason(**it) == switch;
    Capability::ALL.iter().find(of).map(|it| it.name().into())
}

#[cfg(test)]
mod tests {
    use super::super::args::{Cli, Command};
    use super::*;
    use clap::Parser;
    use monitor_model::want::Devices;
    use monitor_sampling::order::Direction;

    fn plan(words: &str) -> Result<Plan, Failure> {
        let words = ["monitor", "sample"].into_iter().chain(words.split_whitespace());
        match Cli::try_parse_from(words).expect("words that parse").command {
            Some(Command::Sample(sample)) => Plan::resolve(&sample.reading, Pace::Once),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn refused(words: &str, want: &str) {
        let failure = plan(words).err().expect("it is refused");
        assert_eq!((failure.message.as_str(), failure.exit as u8), (want, 2));
    }

    #[test]
    fn an_unknown_field_is_told_with_the_nearest() {
        refused("--fields pid,rss", r#"unknown field "rss"; did you mean "rss_bytes"?"#);
        refused("--sort -cpu", r#"unknown field "cpu"; did you mean "cpu_ns"?"#);
        refused("--fields pid,,comm", "a field without a name; see monitor fields");
        refused("net --fields sent", r#"unknown field "sent"; did you mean "sent_bytes"?"#);
    }

    #[test]
    fn what_cannot_be_together_is_told() {
        refused("node --pid 1", "--pid is of processes, not of node");
        refused("proc sda", "\"sda\" after proc: devices are named after disk or net");
        refused(
            "all --format csv",
            "csv has rows of one kind: choose proc, node, disk or net instead of all",
        );
        refused("--signals --format csv", "csv has no place for --signals: use table or json");
        refused("disk --signals", "--signals is of processes, not of disk");
        refused("--pmix --group-by job", "group_by with pmix: PMIx has no names for groups");
        refused("--sort cmdline", "cannot sort by cmdline: choose a number or comm");
    }

    #[test]
    fn fields_of_groups_are_told_of_every_group_and_of_nothing_else() {
        refused("--fields pid,processes", "processes is of a group: --group-by tells it");
        let why = "processes is told of every group: name what to add up of its processes";
        refused("--group-by job --fields processes", why);
        let plan = plan("--group-by job --fields processes,cpu_ns,lost").expect("a plan");
        assert_eq!(plan.layout.processes, [ProcessField::CpuTime]);
    }

    #[test]
    fn a_costly_field_is_read_only_if_it_is_shown() {
        let costly = |words| plan(words).map(|plan| plan.want.costly).expect("a plan");
        assert_eq!(costly(""), []);
        assert_eq!(costly("--fields pid,pss_bytes"), [ProcessField::Pss]);
        assert_eq!(costly("--cgroup /a"), [ProcessField::Cgroup]);
        assert_eq!(
            costly("--cgroup /a --group-by user"),
            [ProcessField::Cgroup, ProcessField::User]
        );
        assert!(!costly("--format json").contains(&ProcessField::Pss));
    }

    #[test]
    fn a_field_to_sort_by_implies_its_capability() {
        let plan = plan("--sort block_read_bytes").expect("a plan");
        assert!(plan.capabilities.contains(&Capability::Block));
    }

    #[test]
    fn devices_are_named_after_the_part() {
        let plan = plan("disk sda nvme0n1").expect("a plan");
        assert_eq!(plan.want.disks, Devices::Named(vec!["sda".into(), "nvme0n1".into()]));
        assert_eq!(plan.want.nets, Devices::None);
    }

    #[test]
    fn signs_before_a_sort_field_choose_the_end() {
        let direction =
            |words| plan(words).ok().and_then(|it| it.picker.order).map(|it| it.direction);
        assert_eq!(direction("--sort rss_bytes"), Some(Direction::Descending));
        assert_eq!(direction("--sort -rss_bytes"), Some(Direction::Descending));
        assert_eq!(direction("--sort +rss_bytes"), Some(Direction::Ascending));
        assert_eq!(direction("--format json"), None);
    }
}
