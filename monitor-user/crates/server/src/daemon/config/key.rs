//! The keys of the configuration: one list for the parser, `config show` and the manual.

use super::{Config, cluster, diag, rule, value};
use crate::http::push::Compression;
use crate::policy::Grantee;
use KeyValue::{Count, Duration, Other, Path, Size, Users};
use monitor_model::Ns;
use std::path::PathBuf;
use toml::de::DeValue;

/// A key of the configuration.
pub struct ConfigKey {
    /// Its section.
    pub section: &'static str,
    /// Its name in the section.
    pub name: &'static str,
    /// A short description.
    pub meaning: &'static str,
    value: KeyValue,
}

/// Sets the value of a key, or says what was expected.
type Set = fn(&mut Config, &DeValue<'_>) -> Result<(), String>;

/// The value of a key, by its form.
enum KeyValue {
    Count(fn(&mut Config) -> &mut usize),
    Duration(fn(&mut Config) -> &mut u64),
    Size(fn(&mut Config) -> &mut usize),
    Path(fn(&mut Config) -> &mut Option<PathBuf>),
    Users(fn(&mut Config) -> &mut Vec<Grantee>),
    /// Another form, with the function that writes it as TOML.
    Other(Set, fn(&Config) -> String),
}

impl ConfigKey {
    /// Sets its value.
    ///
    /// # Errors
    ///
    /// Says what was expected.
    pub fn set(&self, config: &mut Config, to: &DeValue<'_>) -> Result<(), String> {
        match self.value {
            Count(at) => *at(config) = value::count(to)?,
            Duration(at) => *at(config) = value::duration(to)?,
            Size(at) => *at(config) = value::size(to)?,
            Path(at) => *at(config) = value::path(to)?,
            Users(at) => *at(config) = value::users(to)?,
            Other(set, _) => set(config, to)?,
        }
        Ok(())
    }

    /// Writes its value as TOML.
    pub fn show(&self, config: &Config) -> String {
        let mut config = config.clone();
        match self.value {
            Count(at) => at(&mut config).to_string(),
            Duration(at) => value::duration_to_toml(*at(&mut config)),
            Size(at) => value::size_to_toml(*at(&mut config)),
            Path(at) => value::path_to_toml(at(&mut config).as_deref()),
            Users(at) => value::users_to_toml(at(&mut config)),
            Other(_, show) => show(&config),
        }
    }
}

/// All keys, by section.
pub const KEYS: &[ConfigKey] = &[
    key(
        ["socket", "path", "path of the socket; read only at startup"],
        Other(
            |it, value| value::text(value).map(|text| it.socket = Some(text.into())),
            |it| format!("{:?}", it.socket.as_deref().unwrap_or("".as_ref())),
        ),
    ),
    key(
        [
            "backend",
            "name",
            "backend: auto, ebpf, procfs, test or unsupported; read only at startup",
        ],
        Other(
            |it, value| {
                let choice = value::text(value)?.parse();
                choice.map(|choice| it.backend = choice).map_err(|why| format!("{why}"))
            },
            |it| format!("{:?}", it.backend.name()),
        ),
    ),
    key(
        ["log", "level", "off, error, warn, info, debug or trace"],
        Other(
            |it, value| super::level(value::text(value)?).map(|level| it.log = level),
            |it| format!("{:?}", it.log),
        ),
    ),
    key(["limits", "monitors", "monitors of one user"], Count(|it| &mut it.limits.monitors)),
    key(
        ["limits", "period", "shortest period of a monitor"],
        Duration(|it| &mut it.limits.period_ns),
    ),
    key(
        ["limits", "costly_period", "the same for fields that walk page tables (pss_bytes)"],
        Duration(|it| &mut it.limits.costly_period_ns),
    ),
    key(
        ["limits", "samples_per_second", "samples per second of all monitors of one user"],
        Other(
            |it, value| value::count(value).map(|n| it.limits.samples_per_second = n as u64),
            |it| it.limits.samples_per_second.to_string(),
        ),
    ),
    key(
        ["limits", "checks_per_second", "checks per second of all watches of one user"],
        Other(
            |it, value| value::count(value).map(|n| it.limits.checks_per_second = n as u64),
            |it| it.limits.checks_per_second.to_string(),
        ),
    ),
    key(["limits", "lease", "longest lease"], Duration(|it| &mut it.limits.lease_ns)),
    key(
        ["limits", "groups", "monitors of one user that group processes"],
        Count(|it| &mut it.limits.groups),
    ),
    key(
        ["limits", "registrations", "pending registrations of ranks of one user"],
        Count(|it| &mut it.limits.registrations),
    ),
    key(
        ["limits", "kept_events", "events that a monitor keeps while its client is disconnected"],
        Count(|it| &mut it.limits.kept_events),
    ),
    key(
        ["limits", "kept_bytes", "bytes that monitors of one user keep between their samples"],
        Size(|it| &mut it.limits.kept_bytes),
    ),
    key(
        ["limits", "connections", "connections of one user"],
        Count(|it| &mut it.connections.connections),
    ),
    key(
        ["limits", "all_connections", "connections of all users except root"],
        Count(|it| &mut it.connections.all_connections),
    ),
    key(
        ["limits", "queue_bytes", "bytes of samples queued for one connection"],
        Size(|it| &mut it.connections.queue_bytes),
    ),
    key(
        ["limits", "user_bytes", "unread bytes on all connections of one user"],
        Size(|it| &mut it.connections.user_bytes),
    ),
    key(
        ["limits", "processor", "share of one processor for calls and requests of one user"],
        Other(
            |it, value| value::share(value).map(|share| it.connections.processor = share),
            |it| format!("\"{}%\"", it.connections.processor * 100.0),
        ),
    ),
    key(
        ["limits", "request_bytes", "longest line of a request or call"],
        Size(|it| &mut it.connections.request_bytes),
    ),
    key(
        ["policy", "observe-own", "users who may send requests at all"],
        Users(|it| &mut it.grants[0]),
    ),
    key(
        ["policy", "observe-all", "users who see all processes in full"],
        Users(|it| &mut it.grants[1]),
    ),
    key(
        ["policy", "control-own", "users who may control their own processes"],
        Users(|it| &mut it.grants[2]),
    ),
    key(
        ["policy", "control-all", "users who may control all processes"],
        Users(|it| &mut it.grants[3]),
    ),
    key(
        ["budget", "share", "largest share of the machine that the daemon may use"],
        Other(
            |it, value| value::share(value).map(|share| it.budget.share = share),
            |it| format!("\"{}%\"", it.budget.share * 100.0),
        ),
    ),
    key(
        ["budget", "window", "time over which the share is measured"],
        Duration(|it| &mut it.budget.window.0),
    ),
    key(
        ["flight", "keep", "how much time the flight recorder keeps (monitor save), or off"],
        Other(
            |it, value| match value.as_str() {
                Some("off") => {
                    it.flight.keep = Ns(0);
                    Ok(())
                }
                _ => value::duration(value).map(|ns| it.flight.keep = Ns(ns)),
            },
            |it| match it.flight.keep {
                Ns(0) => "\"off\"".into(),
                Ns(keep) => value::duration_to_toml(keep),
            },
        ),
    ),
    key(["flight", "every", "period of its samples"], Duration(|it| &mut it.flight.every.0)),
    key(
        [
            "jobs",
            "follow",
            "whether the history of parallel jobs is kept (monitor job list --ended)",
        ],
        Other(
            |it, value| value::boolean(value).map(|is_on| it.followed.jobs = is_on),
            |it| it.followed.jobs.to_string(),
        ),
    ),
    key(
        [
            "jobs",
            "environment",
            "whether faults and limits of the node are kept (monitor job events --replay)",
        ],
        Other(
            |it, value| value::boolean(value).map(|is_on| it.followed.environment = is_on),
            |it| it.followed.environment.to_string(),
        ),
    ),
    key(
        [
            "checkpoint",
            "images",
            "folder of checkpoint images of migrating processes; read only at startup",
        ],
        Other(
            |it, value| {
                let path = value::path(value)?.filter(|path| path.is_absolute());
                it.images = path.ok_or("expected a path that begins with a slash")?;
                Ok(())
            },
            |it| format!("{:?}", it.images),
        ),
    ),
    key(
        [
            "files",
            "socket",
            "path of the 9P socket; auto: beside the other; or off; read only at startup",
        ],
        Other(
            |it, value| value::text(value)?.parse().map(|socket| it.files = socket),
            |it| format!("{:?}", it.files.to_string()),
        ),
    ),
    key(
        [
            "files",
            "execute",
            "users and @groups that may execute programs as sessions; read only at startup",
        ],
        Users(|it| &mut it.execute),
    ),
    key(
        [
            "files",
            "nodes",
            "other nodes in nodes/, such as \"n1=/run/n1.9p\"; read only at startup",
        ],
        Other(
            |it, value| value::nodes(value).map(|nodes| it.nodes = nodes),
            |it| value::nodes_to_toml(&it.nodes),
        ),
    ),
    key(
        ["files", "aggregate", "children of agg/, such as \"n1=/run/n1.9p\"; read only at startup"],
        Other(
            |it, value| value::children(value).map(|all| it.aggregator.children = all),
            |it| value::children_to_toml(&it.aggregator.children),
        ),
    ),
    key(
        [
            "files",
            "aggregator",
            "name of this aggregator in agg/; that of the host if empty; read only at startup",
        ],
        Other(
            |it, value| value::node_name(value).map(|name| it.aggregator.name = name),
            |it| format!("{:?}", it.aggregator.name),
        ),
    ),
    key(
        [
            "files",
            "listen",
            "address on loopback for clients as none; off if empty; read only at startup",
        ],
        Other(
            |it, value| value::address(value).map(|address| it.files_listen.plain = address),
            |it| value::address_to_toml(it.files_listen.plain),
        ),
    ),
    key(
        ["files", "tls", "address for other nodes, with TLS; off if empty; read only at startup"],
        Other(
            |it, value| value::address(value).map(|address| it.files_listen.tls = address),
            |it| value::address_to_toml(it.files_listen.tls),
        ),
    ),
    key(
        ["files", "certificate", "certificate of this node for TLS with other nodes, PEM"],
        Path(|it| &mut it.files_listen.certificate),
    ),
    key(["files", "key", "key of the certificate, PEM"], Path(|it| &mut it.files_listen.key)),
    key(
        ["files", "authority", "authority that signs the certificates of nodes, PEM"],
        Path(|it| &mut it.files_listen.authority),
    ),
    key(
        [
            "http",
            "listen",
            "address and port, such as 127.0.0.1:9464; off if empty; read only at startup",
        ],
        Other(
            |it, value| value::address(value).map(|address| it.http.address = address),
            |it| value::address_to_toml(it.http.address),
        ),
    ),
    key(
        ["http", "token", "file of the token, created if missing; next to the socket if empty"],
        Path(|it| &mut it.http.token),
    ),
    key(
        ["http", "certificate", "certificate chain for TLS, PEM"],
        Path(|it| &mut it.http.certificate),
    ),
    key(["http", "key", "key of the certificate, PEM"], Path(|it| &mut it.http.key)),
    key(
        ["http", "clients", "authority that signs client certificates with full access, PEM"],
        Path(|it| &mut it.http.clients),
    ),
    key(
        ["http", "hosts", "accepted host names, besides addresses and localhost"],
        Other(
            |it, value| value::texts(value).map(|hosts| it.http.hosts = hosts),
            |it| value::texts_to_toml(it.http.hosts.iter().map(String::as_str)),
        ),
    ),
    key(["http", "connections", "simultaneous connections"], Count(|it| &mut it.http.connections)),
    key(
        [
            "metrics",
            "group_by",
            "what processes are grouped by: job, user, comm, cgroup or container",
        ],
        Other(
            |it, value| {
                let by = value::text(value)?.parse();
                by.map(|by| it.exposed.by = by).map_err(|why| format!("{why}"))
            },
            |it| format!("{:?}", it.exposed.by.name()),
        ),
    ),
    key(
        [
            "metrics",
            "groups",
            "largest number of groups; processes of further groups count in (other)",
        ],
        Count(|it| &mut it.exposed.groups),
    ),
    key(
        [
            "metrics",
            "rules",
            "rules that name groups first, such as {name = \"mpi\", comm = \"^orted$\"}",
        ],
        Other(
            |it, value| rule::rules(value).map(|rules| it.exposed.rules = rules),
            |it| rule::rules_to_toml(&it.exposed.rules),
        ),
    ),
    key(
        [
            "metrics",
            "histograms",
            "latencies to expose: block, run-queue; attached from the first scrape on",
        ],
        Other(
            |it, value| rule::histograms(value).map(|all| it.exposed.histograms = all),
            |it| value::texts_to_toml(it.exposed.histograms.iter().map(|it| it.name())),
        ),
    ),
    key(
        ["diag", "fold", "how long equal events of one job are merged; \"0s\" turns it off"],
        Other(
            |it, value| diag::time(value).map(|time| it.diag.dedup_interval = time),
            |it| diag::time_to_toml(it.diag.dedup_interval),
        ),
    ),
    key(
        [
            "diag",
            "events",
            "thresholds of diagnostic events; \"*\" for those without their own here",
        ],
        Other(
            |it, value| diag::events(value).map(|events| it.diag.events = events),
            |it| diag::events_to_toml(&it.diag.events),
        ),
    ),
    key(
        [
            "otlp",
            "endpoint",
            "collector to push to, such as http://127.0.0.1:4318; read only at startup",
        ],
        Other(
            |it, value| value::endpoint(value).map(|endpoint| it.push.endpoint = endpoint),
            |it| format!("{:?}", it.push.endpoint.as_deref().unwrap_or("")),
        ),
    ),
    key(["otlp", "every", "period of pushes"], Duration(|it| &mut it.push.every_ns)),
    key(
        ["otlp", "compression", "compression of pushes: none or gzip"],
        Other(
            |it, value| {
                let compression = Compression::from_name(value::text(value)?)?;
                it.push.compression = compression;
                Ok(())
            },
            |it| format!("{:?}", it.push.compression.name()),
        ),
    ),
    key(
        [
            "cluster",
            "servers",
            "servers of the bus, such as nats://10.0.0.1:4222; none: the node is alone; all of \
             [cluster] is read only at startup",
        ],
        Other(
            |it, value| cluster::servers(value).map(|servers| it.cluster.servers = servers),
            |it| value::texts_to_toml(it.cluster.servers.iter().map(String::as_str)),
        ),
    ),
    key(
        [
            "cluster",
            "credentials",
            "file with the seed of this node's nkey, or USER:PASSWORD, readable by its owner alone",
        ],
        Path(|it| &mut it.cluster.credentials),
    ),
    key(
        [
            "cluster",
            "ca",
            "certificates that sign those of tls:// servers; unset: those of the host",
        ],
        Path(|it| &mut it.cluster.ca),
    ),
    key(
        [
            "cluster",
            "name",
            "name of the cluster: servers that carry another one are refused; empty: any",
        ],
        Other(
            |it, value| value::text(value).map(|name| it.cluster.name = name.to_owned()),
            |it| format!("{:?}", it.cluster.name),
        ),
    ),
    key(
        ["cluster", "node", "name of this node in the cluster; that of the host if empty"],
        Other(
            |it, value| cluster::node(value).map(|name| it.cluster.node = name),
            |it| format!("{:?}", it.cluster.node),
        ),
    ),
    key(
        ["cluster", "ledger", "file in which the node notes which commands it has begun"],
        Other(
            |it, value| cluster::ledger(value).map(|path| it.cluster.ledger = path),
            |it| format!("{:?}", it.cluster.ledger),
        ),
    ),
    key(
        [
            "cluster",
            "removes_dead",
            "whether this node removes members that give no sign of life; set it on a few nodes",
        ],
        Other(
            |it, value| value::boolean(value).map(|is_on| it.cluster.removes_dead = is_on),
            |it| it.cluster.removes_dead.to_string(),
        ),
    ),
    key(
        ["cluster", "gateway", "whether this node shows the jobs, users and totals of all nodes"],
        Other(
            |it, value| value::boolean(value).map(|is_on| it.cluster.gateway = is_on),
            |it| it.cluster.gateway.to_string(),
        ),
    ),
    key(
        [
            "cluster",
            "aggregators",
            "nodes of which one publishes the roll-ups of this node's rack, such as m[1-2]",
        ],
        Other(
            |it, value| cluster::aggregators(value).map(|set| it.cluster.aggregators = set),
            |it| format!("{:?}", it.cluster.aggregators),
        ),
    ),
    key(
        [
            "cluster",
            "received",
            "folder of the files that users send to this node; unset: received, beside the ledger",
        ],
        Path(|it| &mut it.cluster.received),
    ),
    key(
        ["cluster", "received_bytes", "most bytes of the received files of a user"],
        Size(|it| &mut it.cluster.received_bytes),
    ),
    key(
        [
            "cluster",
            "control_from",
            "nodes whose users may control processes here, such as n[1-3]; users of others observe",
        ],
        Other(
            |it, value| cluster::node_set(value).map(|set| it.cluster.control_from = set),
            |it| format!("{:?}", it.cluster.control_from),
        ),
    ),
];

/// A key: its section, its name and its description, and where its value is.
const fn key([section, name, meaning]: [&'static str; 3], value: KeyValue) -> ConfigKey {
    ConfigKey { section, name, meaning, value }
}
