//! From the words of the command line to what is read, chosen and printed.
//!
//! Every name is checked here, before anything is opened. What is asked for and cannot be
//! together is told in one line.

use super::args::{LEVELS, Reading};
use super::columns::{self, Pace};
use super::exit::Failure;
use crate::backend::select::Choice;
use crate::format::{Form, Layout, Scope};
use crate::meter::filter::Filter;
use crate::meter::group::{Groups, Limits};
use crate::meter::need::{self, Reason};
use crate::meter::order::{Direction, Order};
use crate::meter::pick::Picker;
use crate::meter::plan::COSTLY;
use crate::model::field::{Category, ProcessField};
use crate::model::group::{By, sum};
use crate::model::id::{Ns, Pid};
use crate::model::name;
use crate::model::want::{Capability, Devices, Want};

/// What is to be done.
pub struct Plan {
    /// Who reads.
    pub choice: Choice,
    /// What its programs log: 0 nothing, to 5 all.
    pub probe_log: u8,
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
        let switches = switches(words);
        let (layout, named) = layout(words, &switches, pace)?;
        let order = order(words, pace)?;
        let filter = filter(words);
        sums(words, &named)?;
        sums(words, order.map(|order| order.field).as_slice())?;
        let sorted = named.iter().copied().chain(order.map(|order| order.field));
        let fields: Vec<_> = sorted.collect();
        Ok(Self {
            choice: words.backend,
            probe_log: probe_log(words),
            capabilities: need::capabilities(words.part, &switches, &fields),
            want: want(words, &layout, &filter),
            groups: groups(words),
            picker: Picker::new(filter, order, words.top.map(|top| top as usize)),
            layout,
            form: words.format,
        })
    }
}

/// Refuses what cannot be together.
fn possible(words: &Reading) -> Result<(), Failure> {
    let part = Scope::NAMES[words.part as usize];
    if let (Some(device), false) = (words.device.first(), has_devices(words.part)) {
        let why = format!("{device:?} after {part}: devices are named after disk or net");
        return Err(Failure::usage(why));
    }
    if words.format == Form::Csv && words.part == Scope::All {
        let why = "csv has rows of one kind: choose proc, node, disk or net instead of all";
        return Err(Failure::usage(why));
    }
    if words.signals && matches!(words.format, Form::Csv | Form::Prometheus) {
        let form = Form::NAMES[words.format as usize];
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

/// The fields to print, and those of processes that were named.
fn layout(
    words: &Reading,
    switches: &[Reason],
    pace: Pace,
) -> Result<(Layout, Vec<ProcessField>), Failure> {
    let mut layout = match words.format {
        Form::Table => columns::table(words.part, switches, (pace, words.threads)),
        _ => Layout::all(words.part),
    };
    layout.signals = words.signals;
    let names = &words.fields;
    if names.is_empty() {
        return Ok((layout, Vec::new()));
    }
    match words.part {
        Scope::Processes | Scope::All => layout.processes = named(names)?,
        Scope::Node => layout.node = named(names)?,
        Scope::Disks => layout.disks = named(names)?,
        Scope::Nets => layout.nets = named(names)?,
    }
    let processes = if words.part.processes() { layout.processes.clone() } else { Vec::new() };
    Ok((layout, processes))
}

fn groups(words: &Reading) -> Option<Groups> {
    let keep = Ns(u64::try_from(words.keep.as_nanos()).unwrap_or(u64::MAX));
    words.group_by.map(|by| Groups::new(by, Limits { keep, ..Limits::default() }))
}

/// Refuses a field that makes no sense of a group.
fn sums(words: &Reading, fields: &[ProcessField]) -> Result<(), Failure> {
    let is_one = |field: &&ProcessField| words.group_by.is_some() && sum(**field).is_none();
    match fields.iter().find(is_one) {
        Some(field) => {
            let name = field.field().name;
            Err(Failure::usage(format!("{name} is of one process: --group-by has no sum of it")))
        }
        None => Ok(()),
    }
}

fn named<F: Category>(names: &[String]) -> Result<Vec<F>, Failure> {
    names.iter().map(|name| field(name.trim())).collect()
}

fn field<F: Category>(written: &str) -> Result<F, Failure> {
    if written.is_empty() {
        return Err(Failure::usage("a field without a name; see monitor fields"));
    }
    let names = F::FIELDS.iter().map(|field| field.name);
    let place = name::position("field", names, written).map_err(Failure::usage)?;
    Ok(F::at(place).expect("the place is in the list"))
}

/// What to sort by: as written, else CPU where rows are many or only the first are wanted.
fn order(words: &Reading, pace: Pace) -> Result<Option<Order>, Failure> {
    let Some(written) = &words.sort else {
        let sorted = words.format == Form::Table || words.top.is_some();
        let cpu = match pace {
            Pace::Once => ProcessField::CpuTime,
            Pace::Again => ProcessField::CpuPercent,
        };
        return Ok(sorted.then_some(Order { field: cpu, direction: Direction::Descending }));
    };
    let (direction, name) = match written.strip_prefix('+') {
        Some(name) => (Direction::Ascending, name),
        None => (Direction::Descending, written.strip_prefix('-').unwrap_or(written)),
    };
    let field = field(name)?;
    if Order::possible(field) {
        return Ok(Some(Order { field, direction }));
    }
    Err(Failure::usage(format!("cannot sort by {name}: choose a number or comm")))
}

fn filter(words: &Reading) -> Filter {
    Filter {
        pids: words.pid.iter().copied().map(Pid).collect(),
        comms: words.comm.clone(),
        uids: words.uid.clone(),
        cgroups: words.cgroup.clone(),
    }
}

fn want(words: &Reading, layout: &Layout, filter: &Filter) -> Want {
    let by = words.group_by.map(By::field);
    let listed = |field| match by {
        Some(by) => field == by || (layout.processes.contains(&field) && sum(field).is_some()),
        None => layout.processes.contains(&field),
    };
    let shown = |field: &ProcessField| {
        listed(*field) || (*field == ProcessField::Cgroup && !filter.cgroups.is_empty())
    };
    let devices = |wanted| match (wanted, words.device.is_empty()) {
        (false, _) => Devices::None,
        (true, true) => Devices::All,
        (true, false) => Devices::Named(words.device.iter().map(|it| it.as_str().into()).collect()),
    };
    Want {
        processes: words.part.processes(),
        pids: (!filter.pids.is_empty()).then(|| filter.pids.clone()),
        threads: words.threads,
        costly: COSTLY.into_iter().filter(shown).collect(),
        node: words.part.node(),
        disks: devices(words.part.disks()),
        nets: devices(words.part.nets()),
    }
}

fn probe_log(words: &Reading) -> u8 {
    let level = LEVELS.iter().position(|level| *level == words.probe_log);
    level.and_then(|level| u8::try_from(level).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::args::{Cli, Command};
    use super::*;
    use clap::Parser;

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
        refused("--sort cmdline", "cannot sort by cmdline: choose a number or comm");
    }

    #[test]
    fn a_costly_field_is_read_only_if_it_is_shown() {
        let costly = |words| plan(words).map(|plan| plan.want.costly).expect("a plan");
        assert_eq!(costly(""), []);
        assert_eq!(costly("--fields pid,pss_bytes"), [ProcessField::Pss]);
        assert_eq!(costly("--cgroup /a"), [ProcessField::Cgroup]);
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
