//! Every key of the configuration: one list behind the check, the listing and the manual.

use super::{Config, diag, rule, value};
use monitor_model::id::Ns;
use toml::de::DeValue;

/// A key.
pub struct Key {
    /// Its section.
    pub section: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// What it is, in a few words.
    pub meaning: &'static str,
    /// Takes its value, or says what was wanted.
    pub set: fn(&mut Config, &DeValue<'_>) -> Result<(), String>,
    /// Writes its value as the file would.
    pub show: fn(&Config) -> String,
}

/// All of them, by section.
pub const KEYS: &[Key] = &[
    Key {
        section: "socket",
        name: "path",
        meaning: "where it listens; taken at the start only",
        set: |it, value| value::text(value).map(|text| it.socket = Some(text.into())),
        show: |it| format!("{:?}", it.socket.as_deref().unwrap_or("".as_ref())),
    },
    Key {
        section: "backend",
        name: "name",
        meaning: "who reads: auto, ebpf, procfs, test, unsupported; taken at the start only",
        set: |it, value| {
            let choice = value::text(value)?.parse();
            choice.map(|choice| it.backend = choice).map_err(|why| format!("{why}"))
        },
        show: |it| format!("{:?}", it.backend.name()),
    },
    Key {
        section: "log",
        name: "level",
        meaning: "off, error, warn, info, debug or trace",
        set: |it, value| {
            let level = super::level(value::text(value)?)?;
            it.log = level;
            Ok(())
        },
        show: |it| format!("{:?}", it.log),
    },
    Key {
        section: "limits",
        name: "monitors",
        meaning: "monitors of one user",
        set: |it, value| value::count(value).map(|n| it.limits.monitors = n),
        show: |it| it.limits.monitors.to_string(),
    },
    Key {
        section: "limits",
        name: "period",
        meaning: "shortest time from one sample to the next",
        set: |it, value| value::duration(value).map(|ns| it.limits.period_ns = ns),
        show: |it| value::written_duration(it.limits.period_ns),
    },
    Key {
        section: "limits",
        name: "costly_period",
        meaning: "the same where page tables are walked (pss_bytes)",
        set: |it, value| value::duration(value).map(|ns| it.limits.costly_period_ns = ns),
        show: |it| value::written_duration(it.limits.costly_period_ns),
    },
    Key {
        section: "limits",
        name: "samples_per_second",
        meaning: "samples of all monitors of one user in a second",
        set: |it, value| value::count(value).map(|n| it.limits.samples_per_second = n as u64),
        show: |it| it.limits.samples_per_second.to_string(),
    },
    Key {
        section: "limits",
        name: "lease",
        meaning: "longest lease",
        set: |it, value| value::duration(value).map(|ns| it.limits.lease_ns = ns),
        show: |it| value::written_duration(it.limits.lease_ns),
    },
    Key {
        section: "limits",
        name: "groups",
        meaning: "monitors of one user that add processes up",
        set: |it, value| value::count(value).map(|n| it.limits.groups = n),
        show: |it| it.limits.groups.to_string(),
    },
    Key {
        section: "limits",
        name: "registrations",
        meaning: "registrations of ranks that wait, of one user",
        set: |it, value| value::count(value).map(|n| it.limits.registrations = n),
        show: |it| it.limits.registrations.to_string(),
    },
    Key {
        section: "limits",
        name: "kept_events",
        meaning: "events that a monitor keeps while nobody listens",
        set: |it, value| value::count(value).map(|n| it.limits.kept_events = n),
        show: |it| it.limits.kept_events.to_string(),
    },
    Key {
        section: "limits",
        name: "connections",
        meaning: "connections of one user",
        set: |it, value| value::count(value).map(|n| it.door.connections = n),
        show: |it| it.door.connections.to_string(),
    },
    Key {
        section: "limits",
        name: "all_connections",
        meaning: "connections of all users but root",
        set: |it, value| value::count(value).map(|n| it.door.all_connections = n),
        show: |it| it.door.all_connections.to_string(),
    },
    Key {
        section: "limits",
        name: "queue_bytes",
        meaning: "bytes of samples that wait for one connection",
        set: |it, value| value::size(value).map(|n| it.door.queue_bytes = n),
        show: |it| value::written_size(it.door.queue_bytes),
    },
    Key {
        section: "limits",
        name: "request_bytes",
        meaning: "longest line that is read",
        set: |it, value| value::size(value).map(|n| it.door.request_bytes = n),
        show: |it| value::written_size(it.door.request_bytes),
    },
    class("observe-own", "who may ask at all", 0),
    class("observe-all", "who sees other users' processes in full", 1),
    class("control-own", "act on one's own processes by requests", 2),
    class("control-all", "act on everybody's processes by requests", 3),
    Key {
        section: "budget",
        name: "share",
        meaning: "most of the machine that the service may use itself",
        set: |it, value| value::share(value).map(|share| it.budget.share = share),
        show: |it| format!("\"{}%\"", it.budget.share * 100.0),
    },
    Key {
        section: "budget",
        name: "window",
        meaning: "time over which that is measured",
        set: |it, value| value::duration(value).map(|ns| it.budget.window.0 = ns),
        show: |it| value::written_duration(it.budget.window.0),
    },
    Key {
        section: "flight",
        name: "keep",
        meaning: "how much of the past is always there (monitor save), or off",
        set: |it, value| match value.as_str() {
            Some("off") => {
                it.keeping.keep = Ns(0);
                Ok(())
            }
            _ => value::duration(value).map(|ns| it.keeping.keep = Ns(ns)),
        },
        show: |it| match it.keeping.keep {
            Ns(0) => "\"off\"".into(),
            Ns(keep) => value::written_duration(keep),
        },
    },
    Key {
        section: "flight",
        name: "every",
        meaning: "time from one sample of it to the next",
        set: |it, value| value::duration(value).map(|ns| it.keeping.every = Ns(ns)),
        show: |it| value::written_duration(it.keeping.every.0),
    },
    Key {
        section: "checkpoint",
        name: "images",
        meaning: "where processes lie that go to another node; taken at the start only",
        set: |it, value| {
            let path = value::path(value)?.filter(|path| path.is_absolute());
            it.dumps = path.ok_or("wanted a path that begins with a slash")?;
            Ok(())
        },
        show: |it| format!("{:?}", it.dumps),
    },
    Key {
        section: "http",
        name: "listen",
        meaning: "address and port, such as 127.0.0.1:9464; off without; taken at the start only",
        set: |it, value| value::address(value).map(|address| it.http.address = address),
        show: |it| match it.http.address {
            Some(address) => format!("\"{address}\""),
            None => "\"\"".into(),
        },
    },
    file("token", "file of the token, made if it is not there; beside the socket without", 0),
    file("certificate", "certificate for TLS and what signs it, PEM", 1),
    file("key", "its key, PEM", 2),
    file("clients", "authority that signs certificates of those who see all, PEM", 3),
    Key {
        section: "http",
        name: "hosts",
        meaning: "names under which it is called, beside addresses and localhost",
        set: |it, value| value::texts(value).map(|hosts| it.http.hosts = hosts),
        show: |it| format!("{:?}", it.http.hosts),
    },
    Key {
        section: "http",
        name: "connections",
        meaning: "connections at the same time",
        set: |it, value| value::count(value).map(|n| it.http.connections = n),
        show: |it| it.http.connections.to_string(),
    },
    Key {
        section: "metrics",
        name: "group_by",
        meaning: "what names the group of a process: job, user, comm, cgroup or container",
        set: |it, value| {
            let by = value::text(value)?.parse();
            by.map(|by| it.exposed.by = by).map_err(|why| format!("{why}"))
        },
        show: |it| format!("{:?}", it.exposed.by.name()),
    },
    Key {
        section: "metrics",
        name: "groups",
        meaning: "most groups; processes of further ones count in (other)",
        set: |it, value| value::count(value).map(|n| it.exposed.groups = n),
        show: |it| it.exposed.groups.to_string(),
    },
    Key {
        section: "metrics",
        name: "rules",
        meaning: "rules that name groups before that, such as {name = \"mpi\", comm = \"^orted$\"}",
        set: |it, value| rule::rules(value).map(|rules| it.exposed.rules = rules),
        show: |it| rule::written(&it.exposed.rules),
    },
    Key {
        section: "metrics",
        name: "histograms",
        meaning: "latencies to expose: block, run-queue; attached from the first collection on",
        set: |it, value| rule::histograms(value).map(|all| it.exposed.histograms = all),
        show: |it| {
            let names: Vec<_> = it.exposed.histograms.iter().map(|it| it.name()).collect();
            format!("{names:?}")
        },
    },
    Key {
        section: "diag",
        name: "fold",
        meaning: "how long what further processes of a job tell is gathered; \"0s\" if it is not",
        set: |it, value| diag::time(value).map(|time| it.diag.fold = time),
        show: |it| diag::written_time(it.diag.fold),
    },
    Key {
        section: "diag",
        name: "events",
        meaning: "thresholds of unusual events, before those that the events have themselves",
        set: |it, value| diag::events(value).map(|events| it.diag.events = events),
        show: |it| diag::written(&it.diag.events),
    },
    Key {
        section: "otlp",
        name: "endpoint",
        meaning: "collector to push to, such as http://127.0.0.1:4318; taken at the start only",
        set: |it, value| value::endpoint(value).map(|endpoint| it.push.endpoint = endpoint),
        show: |it| format!("{:?}", it.push.endpoint.as_deref().unwrap_or("")),
    },
    Key {
        section: "otlp",
        name: "every",
        meaning: "time from one push to the next",
        set: |it, value| value::duration(value).map(|ns| it.push.every_ns = ns),
        show: |it| value::written_duration(it.push.every_ns),
    },
];

/// A file of the listener; `at` is its place in the lists below.
const fn file(name: &'static str, meaning: &'static str, at: usize) -> Key {
    type Set = fn(&mut Config, &DeValue<'_>) -> Result<(), String>;
    type Show = fn(&Config) -> String;
    const SET: [Set; 4] = [
        |it, value| value::path(value).map(|path| it.http.token = path),
        |it, value| value::path(value).map(|path| it.http.certificate = path),
        |it, value| value::path(value).map(|path| it.http.key = path),
        |it, value| value::path(value).map(|path| it.http.clients = path),
    ];
    const SHOW: [Show; 4] = [
        |it| value::written_path(it.http.token.as_deref()),
        |it| value::written_path(it.http.certificate.as_deref()),
        |it| value::written_path(it.http.key.as_deref()),
        |it| value::written_path(it.http.clients.as_deref()),
    ];
    Key { section: "http", name, meaning, set: SET[at], show: SHOW[at] }
}

/// A class of the policy; `class` is its place in `policy::Class::ALL`.
const fn class(name: &'static str, meaning: &'static str, class: usize) -> Key {
    type Set = fn(&mut Config, &DeValue<'_>) -> Result<(), String>;
    type Show = fn(&Config) -> String;
    const SET: [Set; 4] = [
        |it, value| value::people(value).map(|who| it.grants[0] = who),
        |it, value| value::people(value).map(|who| it.grants[1] = who),
        |it, value| value::people(value).map(|who| it.grants[2] = who),
        |it, value| value::people(value).map(|who| it.grants[3] = who),
    ];
    const SHOW: [Show; 4] = [
        |it| value::written(&it.grants[0]),
        |it| value::written(&it.grants[1]),
        |it| value::written(&it.grants[2]),
        |it| value::written(&it.grants[3]),
    ];
    Key { section: "policy", name, meaning, set: SET[class], show: SHOW[class] }
}
