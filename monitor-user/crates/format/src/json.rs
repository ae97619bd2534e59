//! JSON: one object per sample, on one line, with a stable schema.
//!
//! `schema_version`, `time_unix_ns`, `node`, `backend`, `interval_ns` (not on the first),
//! `processes` or `groups`, `node_stats` with `cpus`, `disks` and `nets` inside, `notes`, `lost`.
//! Integers are exact; absent values have no key. Streams through serde, without a tree.

use super::event_json;
use super::object::{GroupHead, GroupSums, Object};
use super::{Frame, FrameWriter, Layout, rounded};
use monitor_model::field::{BlockField, Category, FieldValue, GroupField, ProcessField, ValueKind};
use monitor_model::group::Group;
use monitor_model::histogram::Latencies;
use monitor_model::id::Ns;
use monitor_model::sample::{Node, Note, ProgramLoss};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Incremented by changes that old readers would misinterpret.
const SCHEMA_VERSION: u32 = 1;

/// Writes one line per sample.
pub struct Json {
    layout: Layout,
}

impl Json {
    /// With these fields.
    pub const fn new(layout: Layout) -> Self {
        Self { layout }
    }
}

impl FrameWriter for Json {
    fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        serde_json::to_writer(&mut *out, &SampleObject { frame, layout: &self.layout })
            .expect("names are strings and a vector takes every byte");
        out.push(b'\n');
    }
}

struct SampleObject<'a> {
    frame: &'a Frame<'a>,
    layout: &'a Layout,
}

impl Serialize for SampleObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (layout, sample) = (self.layout, &self.frame.rates.sample);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema_version", &SCHEMA_VERSION)?;
        map.serialize_entry("time_unix_ns", &sample.at.unix.0)?;
        map.serialize_entry("node", &*sample.node)?;
        map.serialize_entry("backend", sample.backend.name())?;
        if let Some(interval) = self.frame.rates.interval {
            map.serialize_entry("interval_ns", &interval.0)?;
        }
        if let Some(grouped) = &self.frame.rates.groups {
            let fields = &layout.group_fields();
            map.serialize_entry("groups", &Groups { groups: &grouped.groups, fields })?;
            if !grouped.finished.is_empty() {
                map.serialize_entry(
                    "finished_groups",
                    &Groups { groups: &grouped.finished, fields },
                )?;
            }
        } else if layout.scope.processes() && !layout.processes.is_empty() {
            let objects = self.frame.processes;
            map.serialize_entry("processes", &ObjectList { objects, fields: &layout.processes })?;
        }
        if layout.histograms {
            map.serialize_entry("histograms", &Histograms(&sample.latencies))?;
        }
        if let Some(node) = &sample.node_stats {
            map.serialize_entry("node_stats", &NodeStats { node, layout })?;
        }
        if layout.signals {
            map.serialize_entry("events", &event_json::EventList(self.frame))?;
        }
        map.serialize_entry("notes", &Notes(&sample.notes))?;
        map.serialize_entry("lost", &Losses(&sample.lost))?;
        map.end()
    }
}

/// Objects of one category.
struct ObjectList<'a, O: Object> {
    objects: &'a [O],
    fields: &'a [O::Field],
}

impl<O: Object> Serialize for ObjectList<'_, O> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.objects.iter().map(|object| OneObject { object, fields: self.fields }),
        )
    }
}

/// One object with its inner objects.
struct OneObject<'a, O: Object> {
    object: &'a O,
    fields: &'a [O::Field],
}

impl<O: Object> Serialize for OneObject<'_, O> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some((name, number)) = self.object.key() {
            map.serialize_entry(name, &number)?;
        }
        fields(&mut map, self.object, self.fields)?;
        let objects = self.object.disks();
        if !objects.is_empty() {
            let all: Vec<_> = BlockField::all().collect();
            map.serialize_entry("disks", &ObjectList { objects, fields: &all })?;
        }
        let (name, objects) = self.object.parts();
        if !objects.is_empty() {
            map.serialize_entry(name, &ObjectList { objects, fields: self.fields })?;
        }
        map.end()
    }
}

struct Groups<'a> {
    groups: &'a [Group],
    fields: &'a [ProcessField],
}

impl Serialize for Groups<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.fields;
        serializer.collect_seq(self.groups.iter().map(|group| OneGroup { group, fields }))
    }
}

struct OneGroup<'a> {
    group: &'a Group,
    fields: &'a [ProcessField],
}

impl Serialize for OneGroup<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let heads: Vec<_> = GroupField::all().collect();
        fields(&mut map, &GroupHead(self.group), &heads)?;
        fields(&mut map, &GroupSums(self.group), self.fields)?;
        map.end()
    }
}

struct NodeStats<'a> {
    node: &'a Node,
    layout: &'a Layout,
}

impl Serialize for NodeStats<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (node, layout) = (self.node, self.layout);
        let mut map = serializer.serialize_map(None)?;
        if layout.scope.node() {
            fields(&mut map, node, &layout.node)?;
        }
        if layout.scope.node() && !layout.cpus.is_empty() {
            map.serialize_entry("cpus", &ObjectList { objects: &node.cpus, fields: &layout.cpus })?;
        }
        if layout.scope.disks() && !layout.disks.is_empty() {
            map.serialize_entry(
                "disks",
                &ObjectList { objects: &node.disks, fields: &layout.disks },
            )?;
        }
        if layout.scope.nets() && !layout.nets.is_empty() {
            map.serialize_entry("nets", &ObjectList { objects: &node.nets, fields: &layout.nets })?;
        }
        map.end()
    }
}

/// Writes the fields that have values.
fn fields<M: SerializeMap, O: Object>(
    map: &mut M,
    object: &O,
    fields: &[O::Field],
) -> Result<(), M::Error> {
    for &it in fields {
        let field = it.field();
        if field.kind == ValueKind::Text {
            if let Some(text) = object.text(it) {
                map.serialize_entry(field.name, &*text)?;
            }
        } else if let Some(value) = object.number(it) {
            entry(map, field.name, value)?;
        }
    }
    Ok(())
}

fn entry<M: SerializeMap>(map: &mut M, name: &str, value: FieldValue<'_>) -> Result<(), M::Error> {
    match value {
        FieldValue::Number(n) => map.serialize_entry(name, &n),
        FieldValue::Signed(n) => map.serialize_entry(name, &n),
        FieldValue::Float(x) => {
            rounded(x).map_or(Ok(()), |rounded| map.serialize_entry(name, &rounded))
        }
        FieldValue::Flag(yes) => map.serialize_entry(name, &yes),
        FieldValue::Letter(letter) => map.serialize_entry(name, &letter),
        FieldValue::Text(text) => map.serialize_entry(name, text),
    }
}

/// For each counted kind, the upper bound and the count of each bucket that is not empty. The last
/// bucket has only a lower bound.
struct Histograms<'a>(&'a Latencies);

impl Serialize for Histograms<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bound_and_count = |(low, high, count): (Ns, Ns, u64)| {
            (if high.0 == u64::MAX { low.0 } else { high.0 }, count)
        };
        let counted = self.0.named().into_iter().filter_map(|(name, it)| Some((name, it?)));
        serializer.collect_map(
            counted.map(|(name, it)| (name, it.buckets().map(bound_and_count).collect::<Vec<_>>())),
        )
    }
}

struct Notes<'a>(&'a [Note]);

impl Serialize for Notes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|note| &note.text))
    }
}

struct Losses<'a>(&'a [ProgramLoss]);

impl Serialize for Losses<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Loss))
    }
}

struct Loss<'a>(&'a ProgramLoss);

impl Serialize for Loss<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("program", &self.0.program)?;
        map.serialize_entry("ring_full", &self.0.ring_full)?;
        map.serialize_entry("table_full", &self.0.table_full)?;
        map.end()
    }
}
