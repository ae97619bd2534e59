//! JSON: one object per sample, on one line, with a stable schema.
//!
//! `schema_version`, `time_unix_ns`, `node`, `backend`, `time_error_ns` (if the backend knows it),
//! `interval_ns` (not on the first), `all_visible` (if no row was selected), `processes` or
//! `groups`, `node_stats` with `cpus`, `disks` and `nets` inside, `notes`, `lost`.
//! Integers are exact; absent values have no key. Streams through serde, without a tree.

use super::object::{GroupHead, GroupSums, Object};
use super::{Frame, FrameWriter, Layout, events, human};
use monitor_model::{BlockField, Category, Group, GroupField, Latencies, Node, Ns, ProcessField};
use monitor_protocol::{signal::EventObject, terminal::write_json};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;

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
        write_json(&mut *out, &SampleObject { frame, layout: &self.layout })
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
        map.serialize_entry("time_unix_ns", &sample.at.unix)?;
        map.serialize_entry("node", &*sample.node)?;
        map.serialize_entry("backend", sample.backend.name())?;
        if sample.time_error != Ns(0) {
            map.serialize_entry("time_error_ns", &sample.time_error)?;
        }
        if let Some(interval) = self.frame.rates.interval {
            map.serialize_entry("interval_ns", &interval)?;
        }
        if let Some(grouped) = &self.frame.rates.groups {
            let fields = layout.group_fields();
            map.serialize_entry("groups", &group_list(&grouped.groups, &fields))?;
            if !grouped.finished.is_empty() {
                map.serialize_entry("finished_groups", &group_list(&grouped.finished, &fields))?;
            }
        } else if layout.scope.processes() && !layout.processes.is_empty() {
            if sample.all_visible && self.frame.processes.len() == sample.processes.len() {
                map.serialize_entry("all_visible", &true)?;
            }
            map.serialize_entry("processes", &list(self.frame.processes, &layout.processes))?;
        }
        if layout.histograms {
            map.serialize_entry("histograms", &histograms(&sample.latencies))?;
        }
        if let Some(node) = &sample.node_stats {
            map.serialize_entry("node_stats", &NodeStats { node, layout })?;
        }
        if layout.signals {
            let events = self.frame.events.iter();
            let events =
                events.map(|it| EventObject::new(sample, it, events::unix_time(sample, it)));
            map.serialize_entry("events", &events.collect::<Vec<_>>())?;
        }
        let notes: Vec<_> = sample.notes.iter().map(|note| &note.text).collect();
        map.serialize_entry("notes", &notes)?;
        map.serialize_entry("lost", &sample.lost)?;
        map.end()
    }
}

/// One object with its inner objects.
struct OneObject<'a, O: Object> {
    object: &'a O,
    fields: &'a [O::Field],
}

/// Objects of one category.
fn list<'a, O: Object>(objects: &'a [O], fields: &'a [O::Field]) -> Vec<OneObject<'a, O>> {
    objects.iter().map(|object| OneObject { object, fields }).collect()
}

impl<O: Object> Serialize for OneObject<'_, O> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some((name, number)) = self.object.key() {
            map.serialize_entry(name, &number)?;
        }
        fields(&mut map, self.object, self.fields)?;
        if !self.object.disks().is_empty() {
            let all: Vec<_> = BlockField::all().collect();
            map.serialize_entry("disks", &list(self.object.disks(), &all))?;
        }
        let (name, parts) = self.object.parts();
        if !parts.is_empty() {
            map.serialize_entry(name, &list(parts, self.fields))?;
        }
        map.end()
    }
}

struct OneGroup<'a> {
    group: &'a Group,
    fields: &'a [ProcessField],
}

fn group_list<'a>(groups: &'a [Group], fields: &'a [ProcessField]) -> Vec<OneGroup<'a>> {
    groups.iter().map(|group| OneGroup { group, fields }).collect()
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
            map.serialize_entry("cpus", &list(&node.cpus, &layout.cpus))?;
        }
        if layout.scope.disks() && !layout.disks.is_empty() {
            map.serialize_entry("disks", &list(&node.disks, &layout.disks))?;
        }
        if layout.scope.nets() && !layout.nets.is_empty() {
            map.serialize_entry("nets", &list(&node.nets, &layout.nets))?;
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
    for &field in fields {
        object.with_value(field, |value| match value.and_then(human::rounded_value) {
            Some(value) => map.serialize_entry(field.field().name, &value),
            None => Ok(()),
        })?;
    }
    Ok(())
}

/// For each counted kind, the upper bound and the count of each bucket that is not empty. The last
/// bucket has only a lower bound.
fn histograms(latencies: &Latencies) -> BTreeMap<&'static str, Vec<(u64, u64)>> {
    let bound_and_count = |(low, high, count): (Ns, Ns, u64)| {
        (if high.0 == u64::MAX { low.0 } else { high.0 }, count)
    };
    let counted = latencies.named().into_iter().filter_map(|(name, it)| Some((name, it?)));
    counted.map(|(name, it)| (name, it.buckets().map(bound_and_count).collect())).collect()
}
