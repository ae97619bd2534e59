//! Resolves the arguments to a plan: what is read, which rows are selected, what is printed.
//!
//! In: `ReadingArgs`. Out: a `Plan`, or a failure of one line. Every name and every combination
//! of options is checked here, before anything is opened.

use super::args::ReadingArgs;
use super::columns::{self, SampleMode};
use super::exit::Failure;
use monitor_format::{Layout, OutputFormat};
use monitor_loader::Readings;
use monitor_model::field::{Category, GroupField, ProcessField, Role};
use monitor_model::group::aggregation;
use monitor_model::id::Ns;
use monitor_model::read_spec::{Capability, ReadSpec};
use monitor_model::request::{MonitorRequest, Target};
use monitor_model::scope::Scope;
use monitor_sampling::capability_deps::CapabilityReason;
use monitor_sampling::expression::{self, Expression};
use monitor_sampling::filter::Filter;
use monitor_sampling::group::Groups;
use monitor_sampling::select_rows::RowSelector;
use monitor_sampling::{fields, plan};

/// What a command reads, selects and prints.
pub struct Plan {
    /// The same request, for a daemon.
    pub request: MonitorRequest,
    /// How often it is read.
    pub readings: Readings,
    /// The capabilities that must be attached.
    pub capabilities: Vec<Capability>,
    /// What the backend reads.
    pub read_spec: ReadSpec,
    /// Filter, order and number of rows.
    pub selector: RowSelector,
    /// The grouping of rows, if any.
    pub groups: Option<Groups>,
    /// The fields to print.
    pub layout: Layout,
    /// The output format.
    pub form: OutputFormat,
}

impl Plan {
    /// Resolves the arguments.
    ///
    /// # Errors
    ///
    /// A usage failure for an unknown name or an invalid combination.
    pub fn resolve(args: &ReadingArgs, mode: SampleMode) -> Result<Self, Failure> {
        check_combination(args)?;
        let args = &without_group_fields(args)?;
        let switches = switches(args);
        let shown = layout(args, &switches, mode)?;
        let request = MonitorRequest {
            part: args.part.name().into(),
            fields: fields(args, &shown),
            targets: args
                .pid
                .iter()
                .map(|&pid| Target::Pid { pid: pid.into(), node: None })
                .collect(),
            disks: devices(args, Scope::Disks),
            nets: devices(args, Scope::Nets),
            comms: args.comm.clone(),
            uids: args.uid.clone(),
            cgroups: args.cgroup.clone(),
            filter: args.filter.clone(),
            sort: sort(args, mode),
            top: args.top,
            threads: args.threads,
            capabilities: switches.iter().filter_map(|it| capability(*it)).collect(),
            pmix: args.output_format() == OutputFormat::Pmix,
            group_by: args.group_by.map(|by| by.name().into()),
            keep_ns: args.group_by.map(|_| Ns::from(args.keep).0),
            ..MonitorRequest::default()
        };
        check_group_fields(args, &shown, request.sort.as_deref())?;
        if let Some(condition) = args.filter.as_deref().map(condition).transpose()? {
            check_rates(&condition, mode)?;
        }
        let is_json = matches!(args.output_format(), OutputFormat::Json | OutputFormat::Pmix);
        let plan = plan::Plan::from_request(&request)?;
        let pids = plan.pids_only().unwrap_or_default().to_vec();
        Ok(Self {
            readings: match mode {
                SampleMode::Once => Readings::One,
                SampleMode::Periodic => Readings::Many,
            },
            capabilities: needed(plan.capabilities, mode),
            read_spec: plan.read_spec,
            groups: plan.grouping.map(|it| Groups::new(it.by, it.limits)),
            selector: RowSelector::new(Filter { pids, ..plan.filter }, plan.order, plan.top)
                .with_condition(plan.condition),
            // JSON has the layout that a daemon would send.
            layout: if is_json { plan.layout } else { shown },
            form: args.output_format(),
            request,
        })
    }
}

impl Plan {
    /// The note for a single sample on named fields that it cannot have: rates.
    pub fn rate_note(&self, named: &[String]) -> Option<String> {
        let Layout { processes, node, cpus, disks, nets, .. } = &self.layout;
        let rates: Vec<_> = [rates(processes), rates(node), rates(cpus), rates(disks), rates(nets)]
            .concat()
            .into_iter()
            .filter(|_| !named.is_empty())
            .collect();
        (!rates.is_empty()).then(|| {
            let (names, verb) = (rates.join(", "), if rates.len() == 1 { "needs" } else { "need" });
            format!("{names} {verb} two readings: use monitor watch --count 2")
        })
    }
}

/// The names of those of these fields that are rates.
fn rates<F: Category>(fields: &[F]) -> Vec<&'static str> {
    let is_rate = |it: &&F| matches!(it.field().role, Role::RateOf(_));
    fields.iter().filter(is_rate).map(|it| it.field().name).collect()
}

/// Parses the condition of `--filter`.
pub fn condition(text: &str) -> Result<Expression, Failure> {
    expression::parse(text).map_err(|fault| Failure::usage(fault.in_text("--filter", text)))
}

/// Refuses a condition that a single reading can never meet.
fn check_rates(condition: &Expression, mode: SampleMode) -> Result<(), Failure> {
    let is_rate = |it: &ProcessField| matches!(it.field().role, Role::RateOf(_));
    let rate = condition.compared_fields().into_iter().find(is_rate);
    match rate.filter(|_| mode == SampleMode::Once) {
        Some(rate) => Err(Failure::usage(format!(
            "--filter: {} needs two readings: use monitor watch --count 2",
            rate.field().name
        ))),
        None => Ok(()),
    }
}

/// The capabilities that a reading can use: no process starts or ends between readings if there is
/// one.
fn needed(mut capabilities: Vec<Capability>, mode: SampleMode) -> Vec<Capability> {
    if mode == SampleMode::Once {
        capabilities.retain(|it| *it != Capability::Lifetimes);
    }
    capabilities
}

/// Refuses options that cannot be combined.
fn check_combination(args: &ReadingArgs) -> Result<(), Failure> {
    let part = Scope::NAMES[args.part as usize];
    let has_devices = matches!(args.part, Scope::Disks | Scope::Nets);
    if let (Some(device), false) = (args.device.first(), has_devices) {
        let why =
            format!("{device:?} after {part}: device names are allowed only after disk or net");
        return Err(Failure::usage(why));
    }
    let of_rows = args.output_format().row_format();
    if let (Some(form), Scope::All) = (of_rows, args.part) {
        return Err(Failure::usage(format!(
            "{form} needs rows of one kind: use proc, node, disk or net instead of all"
        )));
    }
    let prometheus = (args.output_format() == OutputFormat::Prometheus).then_some("prometheus");
    if let (Some(form), true) = (of_rows.or(prometheus), args.signals) {
        return Err(Failure::usage(format!("{form} cannot show --signals: use table or json")));
    }
    if args.threads && args.group_by.is_some() {
        return Err(Failure::usage("--threads and --group-by cannot be combined: choose one"));
    }
    match process_option(args).filter(|_| !args.part.processes()) {
        Some(option) => Err(Failure::usage(format!("{option} does not apply to {part}"))),
        None => Ok(()),
    }
}

/// The arguments without group fields. These are printed for every group and apply to nothing
/// else.
fn without_group_fields(args: &ReadingArgs) -> Result<ReadingArgs, Failure> {
    let of_group = |name: &String| {
        GroupField::from_name(name).is_some() && ProcessField::from_any_name(name).is_none()
    };
    let mut rest = args.clone();
    let of_groups: Vec<_> = rest.fields.extract_if(.., |name| of_group(name)).collect();
    let Some(name) = of_groups.first().filter(|_| args.part.processes()) else {
        return Ok(args.clone());
    };
    match args.group_by {
        None => Err(Failure::usage(format!("{name} is a group field: use --group-by"))),
        Some(_) if rest.fields.is_empty() => Err(Failure::usage(format!(
            "{name} is always printed for groups: name a process field to add up"
        ))),
        Some(_) => Ok(rest),
    }
}

/// The first given option that applies to processes only.
fn process_option(args: &ReadingArgs) -> Option<&'static str> {
    let given = [
        ("--pid", !args.pid.is_empty()),
        ("--comm", !args.comm.is_empty()),
        ("--uid", !args.uid.is_empty()),
        ("--cgroup", !args.cgroup.is_empty()),
        ("--filter", args.filter.is_some()),
        ("--top", args.top.is_some()),
        ("--sort", args.sort.is_some()),
        ("--group-by", args.group_by.is_some()),
        ("--threads", args.threads),
        ("--disk", args.disk),
        ("--net", args.net),
        ("--runqlat", args.runqlat),
        ("--exact-cpu", args.exact_cpu),
        ("--signals", args.signals),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
}

fn switches(args: &ReadingArgs) -> Vec<CapabilityReason> {
    let given = [
        (CapabilityReason::Disk, args.disk),
        (CapabilityReason::WriteBack, args.writeback),
        (CapabilityReason::Net, args.net),
        (CapabilityReason::RunQueue, args.runqlat),
        (CapabilityReason::ExactCpu, args.exact_cpu),
        (CapabilityReason::Signals, args.signals),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(reason, _)| reason).collect()
}

/// The fields to print, in the order in which they were named.
fn layout(
    args: &ReadingArgs,
    switches: &[CapabilityReason],
    mode: SampleMode,
) -> Result<Layout, Failure> {
    if !args.fields.is_empty() {
        let named = fields::named(&args.fields, args.part)?;
        return Ok(Layout { signals: args.signals, ..named });
    }
    let mut layout = match args.output_format() {
        OutputFormat::Table => columns::table(args.part, switches, (mode, args.threads)),
        _ => Layout::all(args.part),
    };
    layout.signals = args.signals;
    Ok(layout)
}

/// Refuses a field that cannot be added up for a group.
fn check_group_fields(
    args: &ReadingArgs,
    shown: &Layout,
    sort: Option<&str>,
) -> Result<(), Failure> {
    let sort = sort.map(plan::order).transpose()?;
    let named = if args.fields.is_empty() { &[][..] } else { &shown.processes };
    let mut fields = named.iter().copied().chain(sort.map(|order| order.field));
    match fields.find(|field| args.group_by.is_some() && aggregation(*field).is_none()) {
        Some(field) => {
            let name = field.field().name;
            let why = format!("{name} cannot be added up: it does not apply with --group-by");
            Err(Failure::usage(why))
        }
        None => Ok(()),
    }
}

/// The fields to request: the named ones, or those of the table; all for other formats.
fn fields(args: &ReadingArgs, shown: &Layout) -> Option<Vec<String>> {
    let mut names = args.fields.clone();
    if args.output_format() == OutputFormat::Table {
        if names.is_empty() {
            names.extend(qualified("proc", &summable(args, &shown.processes)));
            names.extend(qualified("node", &shown.node).filter(|_| args.part.node()));
            names.extend(qualified("disk", &shown.disks).filter(|_| args.part.disks()));
            names.extend(qualified("net", &shown.nets).filter(|_| args.part.nets()));
        }
        // The table dims exited processes.
        if !shown.processes.is_empty() && args.group_by.is_none() {
            names.extend(qualified("proc", &[ProcessField::Ended]));
        }
        if !args.part.processes() {
            names.retain(|name| !name.starts_with("proc."));
        }
    }
    (!names.is_empty()).then_some(names)
}

/// For groups, only the fields that can be added up; else all.
fn summable(args: &ReadingArgs, fields: &[ProcessField]) -> Vec<ProcessField> {
    let adds = |field: &&ProcessField| args.group_by.is_none() || aggregation(**field).is_some();
    fields.iter().filter(adds).copied().collect()
}

/// Field names with their category.
fn qualified<F: Category>(of: &str, fields: &[F]) -> impl Iterator<Item = String> {
    fields.iter().map(move |it| format!("{of}.{}", it.field().name))
}

/// The sort field: as given, else CPU for a table or with `--top`.
fn sort(args: &ReadingArgs, mode: SampleMode) -> Option<String> {
    if args.sort.is_some() || !args.part.processes() {
        return args.sort.clone();
    }
    let sorted = args.output_format() == OutputFormat::Table || args.top.is_some();
    let cpu = mode.select((ProcessField::CpuTime, ProcessField::CpuPercent));
    sorted.then(|| cpu.field().name.into())
}

fn devices(args: &ReadingArgs, part: Scope) -> Option<Vec<String>> {
    (args.part == part && !args.device.is_empty()).then(|| args.device.clone())
}

/// The name of the capability that a switch requests.
fn capability(switch: CapabilityReason) -> Option<String> {
    let of = |it: &&Capability| monitor_sampling::capability_deps::reason(**it) == switch;
    Capability::ALL.iter().find(of).map(|it| it.name().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;
    use monitor_model::read_spec::Devices;
    use monitor_sampling::order::Direction;

    fn plan(args: &str) -> Result<Plan, Failure> {
        let args = ["monitor", "sample"].into_iter().chain(args.split_whitespace());
        match Cli::try_parse_from(args).expect("arguments that parse").command {
            Some(Command::Sample(sample)) => {
                Plan::resolve(&sample.sample.reading, SampleMode::Once)
            }
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn refused(args: &str, want: &str) {
        let failure = plan(args).err().expect("a failure");
        assert_eq!((failure.message.as_str(), failure.exit as u8), (want, 2));
    }

    #[test]
    fn an_unknown_field_is_reported_with_the_nearest_name() {
        refused("--fields pid,rsss", r#"unknown field "rsss"; did you mean "rss"?"#);
        refused("--sort -cpus", r#"unknown field "cpus"; did you mean "cpu"?"#);
        refused("--fields pid,,comm", "a field without a name; see monitor fields");
        refused("net --fields sent", r#"unknown field "sent"; did you mean "sent_bytes"?"#);
    }

    #[test]
    fn invalid_combinations_are_refused() {
        refused("node --pid 1", "--pid does not apply to node");
        refused("proc sda", "\"sda\" after proc: device names are allowed only after disk or net");
        refused(
            "all --format csv",
            "csv needs rows of one kind: use proc, node, disk or net instead of all",
        );
        refused("--signals --format csv", "csv cannot show --signals: use table or json");
        refused("disk --signals", "--signals does not apply to disk");
        refused("--pmix --group-by job", "group_by with pmix: PMIx has no names for groups");
        refused("--sort cmdline", "cannot sort by cmdline: choose a number or comm");
    }

    #[test]
    fn a_condition_has_the_grammar_of_top() {
        let text = |filter: &str, mode| {
            let args = ["monitor", "sample", "--filter", filter];
            let Ok(Cli { command: Some(Command::Sample(it)) }) = Cli::try_parse_from(args) else {
                panic!("arguments that parse")
            };
            Plan::resolve(&it.sample.reading, mode).err().map(|failure| failure.message)
        };
        let rate = "--filter: cpu_percent needs two readings: use monitor watch --count 2";
        assert_eq!(text("cpu > 10", SampleMode::Once).as_deref(), Some(rate));
        assert_eq!(text("cpu > 10 and comm ~ mpi", SampleMode::Periodic), None);
        assert_eq!(text("rss > 1G or solver", SampleMode::Once), None);
        let fault = "--filter, column 1: unknown field \"cpuu\"; did you mean \"cpu\"?";
        assert_eq!(text("cpuu > 10", SampleMode::Periodic).as_deref(), Some(fault));
        refused("node --filter mpi", "--filter does not apply to node");
    }

    #[test]
    fn named_rates_of_a_single_sample_are_noted() {
        let note = |args| {
            let (_, fields) = str::split_once(args, "--fields ").unwrap_or_default();
            let named = fields.split(',').filter(|it| !it.is_empty()).map(str::to_owned);
            plan(args).expect("a plan").rate_note(&named.collect::<Vec<_>>())
        };
        let one = "cpu_percent needs two readings: use monitor watch --count 2";
        assert_eq!(note("--fields pid,cpu").as_deref(), Some(one));
        let two = "cpu_percent, read_bytes_per_s need two readings: use monitor watch --count 2";
        assert_eq!(note("--format json --fields cpu,read").as_deref(), Some(two));
        let node = "cpu_busy_percent needs two readings: use monitor watch --count 2";
        assert_eq!(note("node --fields cpu_busy_percent").as_deref(), Some(node));
        assert_eq!(note("--fields pid,time"), None);
        assert_eq!(note("--format json"), None);
    }

    #[test]
    fn group_fields_need_group_by_and_a_process_field() {
        refused("--fields pid,processes", "processes is a group field: use --group-by");
        let why = "processes is always printed for groups: name a process field to add up";
        refused("--group-by job --fields processes", why);
        let plan = plan("--group-by job --fields processes,cpu_ns,lost").expect("a plan");
        assert_eq!(plan.layout.processes, [ProcessField::CpuTime]);
    }

    #[test]
    fn a_costly_field_is_read_only_if_it_is_needed() {
        let costly = |args| plan(args).map(|plan| plan.read_spec.costly).expect("a plan");
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
        assert_eq!(plan.read_spec.disks, Devices::Named(vec!["sda".into(), "nvme0n1".into()]));
        assert_eq!(plan.read_spec.nets, Devices::None);
    }

    #[test]
    fn the_sign_before_a_sort_field_selects_the_direction() {
        let direction =
            |args| plan(args).ok().and_then(|it| it.selector.order).map(|it| it.direction);
        assert_eq!(direction("--sort rss_bytes"), Some(Direction::Descending));
        assert_eq!(direction("--sort -rss_bytes"), Some(Direction::Descending));
        assert_eq!(direction("--sort +rss_bytes"), Some(Direction::Ascending));
        assert_eq!(direction("--format json"), None);
    }
}
