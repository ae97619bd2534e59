//! The view of the formats on processes, groups, processors, disks, interfaces and the node: a
//! field list, numbers from the row, and texts of the object itself.

use monitor_model::{
    BlockRow, Category, CpuField, CpuRow, Device, FieldValue, Group, GroupField, Node, NodeField,
    Process, ProcessField, Row, ValueKind,
};
use std::borrow::Cow;

/// An object with a field list.
pub trait Object: Sized {
    /// The category whose fields it has.
    type Field: Category;

    /// The value of a field that is a number, flag or letter.
    fn number(&self, field: Self::Field) -> Option<FieldValue<'static>>;

    /// The value of a text field.
    fn text(&self, _: Self::Field) -> Option<Cow<'_, str>> {
        None
    }

    /// Passes the value of a field to `read`.
    fn with_value<R>(
        &self,
        field: Self::Field,
        read: impl FnOnce(Option<FieldValue<'_>>) -> R,
    ) -> R {
        match field.field().kind {
            ValueKind::Text => read(self.text(field).as_deref().map(FieldValue::Text)),
            _ => read(self.number(field)),
        }
    }

    /// A key that is not in the field list, such as the number of a processor.
    fn key(&self) -> Option<(&'static str, u32)> {
        None
    }

    /// Its block I/O per disk.
    fn disks(&self) -> &[Device<BlockRow>] {
        &[]
    }

    /// Objects of the same category inside it, such as threads, with their JSON key.
    fn parts(&self) -> (&'static str, &[Self]) {
        ("", &[])
    }
}

impl Object for Process {
    type Field = ProcessField;

    fn number(&self, field: ProcessField) -> Option<FieldValue<'static>> {
        self.row.value(field)
    }

    fn text(&self, field: ProcessField) -> Option<Cow<'_, str>> {
        if field == ProcessField::Comm {
            return Some(self.comm());
        }
        match self.value(field) {
            Some(FieldValue::Text(text)) => Some(Cow::Borrowed(text)),
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

/// A group's own fields: name and number of processes.
pub struct GroupHead<'g>(pub &'g Group);

impl Object for GroupHead<'_> {
    type Field = GroupField;

    fn number(&self, field: GroupField) -> Option<FieldValue<'static>> {
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

/// The sums over a group's processes.
pub struct GroupSums<'g>(pub &'g Group);

impl Object for GroupSums<'_> {
    type Field = ProcessField;

    fn number(&self, field: ProcessField) -> Option<FieldValue<'static>> {
        self.0.row.value(field)
    }
}

impl Object for Node {
    type Field = NodeField;

    fn number(&self, field: NodeField) -> Option<FieldValue<'static>> {
        self.row.value(field)
    }
}

impl Object for (u32, CpuRow) {
    type Field = CpuField;

    fn number(&self, field: CpuField) -> Option<FieldValue<'static>> {
        self.1.value(field)
    }

    fn key(&self) -> Option<(&'static str, u32)> {
        Some(("cpu", self.0))
    }
}

impl<F: Category, const N: usize> Object for Device<Row<F, N>> {
    type Field = F;

    fn number(&self, field: F) -> Option<FieldValue<'static>> {
        self.row.value(field)
    }

    /// The only text of a device is its name.
    fn text(&self, field: F) -> Option<Cow<'_, str>> {
        (field.field().kind == ValueKind::Text).then_some(Cow::Borrowed(&self.name))
    }
}
