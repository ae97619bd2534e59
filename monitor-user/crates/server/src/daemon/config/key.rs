//! The keys of the configuration: one list for the parser, `config show` and the manual.

use super::{Config, diag, rule, value};
use monitor_model::id::Ns;
use toml::de::DeValue;

/// A key of the configuration.
pub struct ConfigKey {
    /// Its section.
    pub section: &'static str,
    /// Its name in the section.
    pub name: &'static str,
    /// A short description.
    pub meaning: &'static str,
    /// Sets its value, or says what was expected.
    pub set: fn(&mut Config, &DeValue<'_>) -> Result<(), String>,
    /// Writes its value as TOML.
    pub show: fn(&Config) -> String,
}

/// All keys, by section.
pub const KEYS: &[ConfigKey] = &[
    ConfigKey {
        section: "socket",
        name: "path",
        meaning: "path of the socket; read only at startup",
        set: |it, value| value::text(value).map(|text| it.socket = Some(text.into())),
        show: |it| format!("{:?}", it.socket.as_deref().unwrap_or("".as_ref())),
    },
    ConfigKey {
        section: "backend",
        name: "name",
        meaning: "backend: auto, ebpf, procfs, test or unsupported; read only at startup",
        set: |it, value| {
            let choice = value::text(value)?.parse();
            choice.map(|choice| it.backend = choice).map_err(|why| format!("{why}"))
        },
        show: |it| format!("{:?}", it.backend.name()),
    },
    ConfigKey {
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
    ConfigKey {
        section: "limits",
        name: "monitors",
        meaning: "monitors of one user",
        set: |it, value| value::count(value).map(|n| it.limits.monitors = n),
        show: |it| it.limits.monitors.to_string(),
    },
    ConfigKey {
        section: "limits",
        name: "period",
        meaning: "shortest period of a monitor",
        set: |it, value| value::duration(value).map(|ns| it.limits.period_ns = ns),
        show: |it| value::duration_to_toml(it.limits.period_ns),
    },
    ConfigKey {
        section: "limits",
        name: "costly_period",
        meaning: "the same for fields that walk page tables (pss_bytes)",
        set: |it, value| value::duration(value).map(|ns| it.limits.costly_period_ns = ns),
        show: |it| value::duration_to_toml(it.limits.costly_period_ns),
    },
    ConfigKey {
        section: "limits",
        name: "samples_per_second",
        meaning: "samples per second of all monitors of one user",
        set: |it, value| value::count(value).map(|n| it.limits.samples_per_second = n as u64),
        show: |it| it.limits.samples_per_second.to_string(),
    },
    ConfigKey {
        section: "limits",
        name: "lease",
        meaning: "longest lease",
        set: |it, value| value::duration(value).map(|ns| it.limits.lease_ns = ns),
        show: |it| value::duration_to_toml(it.limits.lease_ns),
    },
    ConfigKey {
        section: "limits",
        name: "groups",
        meaning: "monitors of one user that group processes",
        set: |it, value| value::count(value).map(|n| it.limits.groups = n),
        show: |it| it.limits.groups.to_string(),
    },
    ConfigKey {
        section: "limits",
        name: "registrations",
        meaning: "pending registrations of ranks of one user",
        set: |it, value| value::count(value).map(|n| it.limits.registrations = n),
        show: |it| it.limits.registrations.to_string(),
    },
    ConfigKey {
        section: "limits",
        name: "kept_events",
        meaning: "events that a monitor keeps while its client is disconnected",
        set: |it, value| value::count(value).map(|n| it.limits.kept_events = n),
        show: |it| it.limits.kept_events.to_string(),
    },
    ConfigKey {
        section: "limits",
        name: "connections",
        meaning: "connections of one user",
        set: |it, value| value::count(value).map(|n| it.connections.connections = n),
        show: |it| it.connections.connections.to_string(),
    },
    ConfigKey {
        section: "limits",
        name: "all_connections",
        meaning: "connections of all users except root",
        set: |it, value| value::count(value).map(|n| it.connections.all_connections = n),
        show: |it| it.connections.all_connections.to_string(),
    },
    ConfigKey {
        section: "limits",
        name: "queue_bytes",
        meaning: "bytes of samples queued for one connection",
        set: |it, value| value::size(value).map(|n| it.connections.queue_bytes = n),
        show: |it| value::size_to_toml(it.connections.queue_bytes),
    },
    ConfigKey {
        section: "limits",
        name: "request_bytes",
        meaning: "longest line of a request or call",
        set: |it, value| value::size(value).map(|n| it.connections.request_bytes = n),
        show: |it| value::size_to_toml(it.connections.request_bytes),
    },
    policy_class("observe-own", "users who may send requests at all", 0),
    policy_class("observe-all", "users who see all processes in full", 1),
    policy_class("control-own", "users who may control their own processes", 2),
    policy_class("control-all", "users who may control all processes", 3),
    ConfigKey {
        section: "budget",
        name: "share",
        meaning: "largest share of the machine that the daemon may use",
        set: |it, value| value::share(value).map(|share| it.budget.share = share),
        show: |it| format!("\"{}%\"", it.budget.share * 100.0),
    },
    ConfigKey {
        section: "budget",
        name: "window",
        meaning: "time over which the share is measured",
        set: |it, value| value::duration(value).map(|ns| it.budget.window.0 = ns),
        show: |it| value::duration_to_toml(it.budget.window.0),
    },
    ConfigKey {
        section: "flight",
        name: "keep",
        meaning: "how much time the flight recorder keeps (monitor save), or off",
        set: |it, value| match value.as_str() {
            Some("off") => {
                it.flight.keep = Ns(0);
                Ok(())
            }
            _ => value::duration(value).map(|ns| it.flight.keep = Ns(ns)),
        },
        show: |it| match it.flight.keep {
            Ns(0) => "\"off\"".into(),
            Ns(keep) => value::duration_to_toml(keep),
        },
    },
    ConfigKey {
        section: "flight",
        name: "every",
        meaning: "period of its samples",
        set: |it, value| value::duration(value).map(|ns| it.flight.every = Ns(ns)),
        show: |it| value::duration_to_toml(it.flight.every.0),
    },
    ConfigKey {
        section: "checkpoint",
        name: "images",
        meaning: "folder of checkpoint images of migrating processes; read only at startup",
        set: |it, value| {
            let path = value::path(value)?.filter(|path| path.is_absolute());
            it.images = path.ok_or("expected a path that begins with a slash")?;
            Ok(())
        },
        show: |it| format!("{:?}", it.images),
    },
    ConfigKey {
        section: "http",
        name: "listen",
        meaning: "address and port, such as 127.0.0.1:9464; off if empty; read only at startup",
        set: |it, value| value::address(value).map(|address| it.http.address = address),
        show: |it| match it.http.address {
            Some(address) => format!("\"{address}\""),
            None => "\"\"".into(),
        },
    },
    http_file("token", "file of the token, created if missing; next to the socket if empty", 0),
    http_file("certificate", "certificate chain for TLS, PEM", 1),
    http_file("key", "key of the certificate, PEM", 2),
    http_file("clients", "authority that signs client certificates with full access, PEM", 3),
    ConfigKey {
        section: "http",
        name: "hosts",
        meaning: "accepted host names, besides addresses and localhost",
        set: |it, value| value::texts(value).map(|hosts| it.http.hosts = hosts),
        show: |it| format!("{:?}", it.http.hosts),
    },
    ConfigKey {
        section: "http",
        name: "connections",
        meaning: "simultaneous connections",
        set: |it, value| value::count(value).map(|n| it.http.connections = n),
        show: |it| it.http.connections.to_string(),
    },
    ConfigKey {
        section: "metrics",
        name: "group_by",
        meaning: "what processes are grouped by: job, user, comm, cgroup or container",
        set: |it, value| {
            let by = value::text(value)?.parse();
            by.map(|by| it.exposed.by = by).map_err(|why| format!("{why}"))
        },
        show: |it| format!("{:?}", it.exposed.by.name()),
    },
    ConfigKey {
        section: "metrics",
        name: "groups",
        meaning: "largest number of groups; processes of further groups count in (other)",
        set: |it, value| value::count(value).map(|n| it.exposed.groups = n),
        show: |it| it.exposed.groups.to_string(),
    },
    ConfigKey {
        section: "metrics",
        name: "rules",
        meaning: "rules that name groups first, such as {name = \"mpi\", comm = \"^orted$\"}",
        set: |it, value| rule::rules(value).map(|rules| it.exposed.rules = rules),
        show: |it| rule::rules_to_toml(&it.exposed.rules),
    },
    ConfigKey {
        section: "metrics",
        name: "histograms",
        meaning: "latencies to expose: block, run-queue; attached from the first scrape on",
        set: |it, value| rule::histograms(value).map(|all| it.exposed.histograms = all),
        show: |it| {
            let names: Vec<_> = it.exposed.histograms.iter().map(|it| it.name()).collect();
            format!("{names:?}")
        },
    },
    ConfigKey {
        section: "diag",
        name: "fold",
        meaning: "how long equal events of one job are merged; \"0s\" turns it off",
        set: |it, value| diag::time(value).map(|time| it.diag.dedup_interval = time),
        show: |it| diag::time_to_toml(it.diag.dedup_interval),
    },
    ConfigKey {
        section: "diag",
        name: "events",
        meaning: "thresholds of diagnostic events, which override their own",
        set: |it, value| diag::events(value).map(|events| it.diag.events = events),
        show: |it| diag::events_to_toml(&it.diag.events),
    },
    ConfigKey {
        section: "otlp",
        name: "endpoint",
        meaning: "collector to push to, such as http://127.0.0.1:4318; read only at startup",
        set: |it, value| value::endpoint(value).map(|endpoint| it.push.endpoint = endpoint),
        show: |it| format!("{:?}", it.push.endpoint.as_deref().unwrap_or("")),
    },
    ConfigKey {
        section: "otlp",
        name: "every",
        meaning: "period of pushes",
        set: |it, value| value::duration(value).map(|ns| it.push.every_ns = ns),
        show: |it| value::duration_to_toml(it.push.every_ns),
    },
];

/// A file of the HTTP listener; `at` is its index in the lists below.
const fn http_file(name: &'static str, meaning: &'static str, at: usize) -> ConfigKey {
    type Set = fn(&mut Config, &DeValue<'_>) -> Result<(), String>;
    type Show = fn(&Config) -> String;
    const SET: [Set; 4] = [
        |it, value| value::path(value).map(|path| it.http.token = path),
        |it, value| value::path(value).map(|path| it.http.certificate = path),
        |it, value| value::path(value).map(|path| it.http.key = path),
        |it, value| value::path(value).map(|path| it.http.clients = path),
    ];
    const SHOW: [Show; 4] = [
        |it| value::path_to_toml(it.http.token.as_deref()),
        |it| value::path_to_toml(it.http.certificate.as_deref()),
        |it| value::path_to_toml(it.http.key.as_deref()),
        |it| value::path_to_toml(it.http.clients.as_deref()),
    ];
    ConfigKey { section: "http", name, meaning, set: SET[at], show: SHOW[at] }
}

/// A right of the policy; `class` is its index in `policy::Grants`.
const fn policy_class(name: &'static str, meaning: &'static str, class: usize) -> ConfigKey {
    type Set = fn(&mut Config, &DeValue<'_>) -> Result<(), String>;
    type Show = fn(&Config) -> String;
    const SET: [Set; 4] = [
        |it, value| value::users(value).map(|users| it.grants[0] = users),
        |it, value| value::users(value).map(|users| it.grants[1] = users),
        |it, value| value::users(value).map(|users| it.grants[2] = users),
        |it, value| value::users(value).map(|users| it.grants[3] = users),
    ];
    const SHOW: [Show; 4] = [
        |it| value::users_to_toml(&it.grants[0]),
        |it| value::users_to_toml(&it.grants[1]),
        |it| value::users_to_toml(&it.grants[2]),
        |it| value::users_to_toml(&it.grants[3]),
    ];
    ConfigKey { section: "policy", name, meaning, set: SET[class], show: SHOW[class] }
}
