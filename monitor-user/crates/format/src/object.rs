//! What a form sees of a process, a processor, a disk, an interface or the node: its field list,
//! numbers from its row, and texts that the object itself keeps.

use monitor_model::field::block::BlockRow;
use monitor_model::field::disk::DiskRow;
use monitor_model::field::net::NetRow;
use monitor_model::field::node::CpuRow;
use monitor_model::field::{
    BlockField, Category, CpuField, DiskField, GroupField, NetField, NodeField, ProcessField, Value,
};
use monitor_model::group::Group;
use monitor_model::sample::{Device, Node, Process};
use std::borrow::Cow;

/// An object with a field list.
pub trait Object: Sized {
    /// Its category.
    type Field: Category;

    /// A number, flag or letter.
    fn number(&self, field: Self::Field) -> Option<Value<'static>>;

    /// A text.
    fn text(&self, _: Self::Field) -> Option<Cow<'_, str>> {
        None
    }

    /// What names it, if that is not in its list.
    fn key(&self) -> Option<(&'static str, u32)> {
        None
    }

    /// What it did on each disk.
    fn disks(&self) -> &[Device<BlockRow>] {
        &[]
    }

    /// Objects of the same category inside it.
    fn parts(&self) -> (&'static str, &[Self]) {
        ("", &[])
    }
}

impl Object for Process {
    type Field = ProcessField;

    fn number(&self, field: ProcessField) -> Option<Value<'static>> {
        self.row.value(field)
    }

    fn text(&self, field: ProcessField) -> Option<Cow<'_, str>> {
        if field == ProcessField::Comm {
            return Some(self.comm());
        }
        match self.value(field) {
            Some(Value::Text(text)) => Some(Cow::Borrowed(text)),
            _ => None,
        }
    }

    fn disks(&self) -> &[Device<BlockRow>] {
        &self.disks
    }

    fn parts(&self) -> (&'static str, &[Self]) {
        ("thread_list", &self.threads)
    }
}

/// A group: its name and how many are in it.
pub struct Head<'g>(pub &'g Group);

impl Object for Head<'_> {
    type Field = GroupField;

    fn number(&self, field: GroupField) -> Option<Value<'static>> {
        self.0.head.value(field)
    }

    fn text(&self, field: GroupField) -> Option<Cow<'_, str>> {
        match field {
            GroupField::By => Some(Cow::Borrowed(self.0.by.name())),
            GroupField::Name => Some(Cow::Borrowed(&self.0.name)),
            _ => None,
        }
    }
}

/// A group: what its processes add up to.
pub struct Sums<'g>(pub &'g Group);

impl Object for Sums<'_> {
    type Field = ProcessField;

    fn number(&self, field: ProcessField) -> Option<Value<'static>> {
        self.0.row.value(field)
    }
}

impl Object for Node {
    type Field = NodeField;

    fn number(&self, field: NodeField) -> Option<Value<'static>> {
        self.row.value(field)
    }
}

impl Object for (u32, CpuRow) {
    type Field = CpuField;

    fn number(&self, field: CpuField) -> Option<Value<'static>> {
        self.1.value(field)
    }

    fn key(&self) -> Option<(&'static str, u32)> {
        Some(("cpu", self.0))
    }
}

impl Object for Device<BlockRow> {
    type Field = BlockField;

    fn number(&self, field: BlockField) -> Option<Value<'static>> {
        self.row.value(field)
    }

    fn text(&self, field: BlockField) -> Option<Cow<'_, str>> {
        (field == BlockField::Device).then_some(Cow::Borrowed(&self.name))
    }
}

impl Object for Device<DiskRow> {
    type Field = DiskField;

    fn number(&self, field: DiskField) -> Option<Value<'static>> {
        self.row.value(field)
    }

    fn text(&self, field: DiskField) -> Option<Cow<'_, str>> {
        (field == DiskField::Device).then_some(Cow::Borrowed(&self.name))
    }
}

impl Object for Device<NetRow> {
    type Field = NetField;

    fn number(&self, field: NetField) -> Option<Value<'static>> {
        self.row.value(field)
    }

    fn text(&self, field: NetField) -> Option<Cow<'_, str>> {
        (field == NetField::Interface).then_some(Cow::Borrowed(&self.name))
    }
}
