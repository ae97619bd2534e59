//! Samples with the keys and units of PMIx, as `PMIx_Process_monitor` returns them.
//!
//! One array per line: a container per process, or one for the node with containers for its disks
//! and interfaces. A container begins with the identity of the object, requested or not, and ends
//! with the time of the sample in seconds. A rank is identified by name, other processes by pid.

use super::{Frame, FrameWriter, Layout, human, object::Object};
use monitor_model::{Category, Node, PmixEncoding, PmixNamed, Process, ProcessField, Sample};
use serde_json::{Map, Value as Json, json};

/// Writes one line per sample.
pub struct Pmix {
    layout: Layout,
}

impl Pmix {
    /// With these fields.
    pub const fn new(layout: Layout) -> Self {
        Self { layout }
    }
}

impl FrameWriter for Pmix {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        let mut all = Vec::new();
        let sample = &frame.rates.sample;
        if self.layout.scope.processes() {
            let fields = &self.layout.processes;
            let fields: Vec<_> =
                fields.iter().copied().filter(|it| *it != ProcessField::Pid).collect();
            let of = |it: &Process| container(it, &fields, identity(it, sample), sample);
            all.extend(frame.processes.iter().map(of));
        }
        if let Some(node) = &sample.node_stats {
            self.node(node, sample, &mut all);
        }
        monitor_protocol::terminal::write_json(&mut *out, &all)
            .expect("keys are strings and a vector takes every byte");
        out.push(b'\n');
    }
}

impl Pmix {
    /// Adds the node with its devices, or only devices if the node itself is not in scope.
    fn node(&self, node: &Node, sample: &Sample, all: &mut Vec<Json>) {
        let disks =
            node.disks.iter().map(|it| container(it, &self.layout.disks, Vec::new(), sample));
        let nets = node.nets.iter().map(|it| container(it, &self.layout.nets, Vec::new(), sample));
        let devices = nets.chain(disks);
        if !self.layout.scope.node() {
            return all.extend(devices);
        }
        let name = vec![host(sample), pair("pmix.nodeid", json!(sample.node_number))];
        let mut it = container(node, &self.layout.node, name, sample);
        let inner = it.as_object_mut().and_then(|it| it.values_mut().next());
        if let Some(inner) = inner.and_then(Json::as_array_mut) {
            let time = inner.pop();
            inner.extend(devices);
            inner.extend(time);
        }
        all.push(it);
    }
}

fn host(sample: &Sample) -> Json {
    pair("pmix.hname", json!(&*sample.node))
}

/// The identity of a process: rank, pid, node.
fn identity(process: &Process, sample: &Sample) -> Vec<Json> {
    let rank = process.text.rank.as_ref();
    let rank = rank.map(|it| json!({ "nspace": &*it.namespace, "rank": it.rank }));
    let rank = rank.map(|it| pair("pmix.procid", it));
    let pid = process.row.get(ProcessField::Pid).map(|pid| pair("pmix.ppid", json!(pid)));
    rank.into_iter().chain(pid).chain([host(sample)]).collect()
}

/// A container: its key, and a list of keys and values after the identity.
fn container<O: Object>(
    object: &O,
    fields: &[O::Field],
    mut list: Vec<Json>,
    sample: &Sample,
) -> Json
where
    O::Field: PmixNamed,
{
    for &field in fields {
        let Some(value) = value(object, field) else { continue };
        match field.pmix() {
            Some(name) => list.push(pair(name.key, encoded(value, name.encoding))),
            None => list.push(pair(&format!("monitor.{}", field.field().name), value)),
        }
    }
    let category = O::Field::CONTAINER.trim_end_matches(".res");
    list.push(pair(&format!("{category}.samptime"), json!(sample.at.unix.0 / 1_000_000_000)));
    pair(O::Field::CONTAINER, Json::Array(list))
}

fn pair(key: &str, value: Json) -> Json {
    Json::Object(Map::from_iter([(key.to_owned(), value)]))
}

fn value<O: Object>(object: &O, field: O::Field) -> Option<Json> {
    object.with_value(field, |value| Some(json!(human::rounded_value(value?)?)))
}

fn encoded(value: Json, shape: PmixEncoding) -> Json {
    let Some(n) = value.as_u64() else { return value };
    match shape {
        PmixEncoding::Same => value,
        PmixEncoding::Mebibytes => json!(n as f64 / f64::from(1 << 20)),
        PmixEncoding::Timeval => {
            json!({ "sec": n / 1_000_000_000, "usec": n % 1_000_000_000 / 1_000 })
        }
        PmixEncoding::Milliseconds => json!(n / 1_000_000),
        PmixEncoding::Sectors => json!(n / 512),
    }
}
