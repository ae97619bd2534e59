//! Decodes the record of a call.
//!
//! In: a plan and the record that its instructions made. Out: the values in their order, each
//! present or absent.

use super::plan::{CallPlan, ValueSlot};
use monitor_backend::{rule::insn::MISSING, rule::rule_record::RuleRecord as Record};
use monitor_symbols::signatures::call::BufferLength;
use monitor_symbols::signatures::traced_values::{TracedValue, ValueSource};

/// A value of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallValue {
    /// Its bits; absent where it could not be read, or found no place.
    pub raw: Option<u64>,
    /// The text that it points to, or what a buffer holds.
    pub text: Option<Vec<u8>>,
}

impl CallValue {
    const NOTHING: Self = Self { raw: None, text: None };

    /// For people.
    pub fn to_text(&self, traced: &TracedValue) -> String {
        self.raw.map_or_else(|| "?".to_owned(), |raw| traced.shown(raw, self.text.as_deref()))
    }
}

/// The values of a record, in the order of the plan.
pub fn values(plan: &CallPlan, record: &Record) -> Vec<CallValue> {
    let mut all: Vec<CallValue> =
        plan.slots.iter().map(|slot| value(plan, *slot, record)).collect();
    let result = plan.values.iter().position(|it| it.source == ValueSource::Result);
    let result = result.and_then(|at| all[at].raw);
    // A buffer was read as a text, which may go on behind its end, and ends at its first zero.
    for (at, traced) in plan.values.iter().enumerate() {
        let Some(length) = &traced.length else { continue };
        let length = length_of(plan, length, &all);
        let text = all[at].text.take();
        all[at].text = text.zip(length).map(|(mut text, length)| {
            text.truncate(length);
            text
        });
    }
    for (decoded, traced) in all.iter_mut().zip(&plan.values) {
        decoded.raw = decoded.raw.map(|raw| raw.wrapping_sub(traced.subtract.into()));
        // Of a call that succeeded it is that of another call.
        if traced.source == ValueSource::Errno && result.map(u64::cast_signed) != plan.fails {
            decoded.raw = Some(0);
        }
    }
    all
}

/// The length of a buffer, if that is recorded too.
fn length_of(plan: &CallPlan, length: &BufferLength, all: &[CallValue]) -> Option<usize> {
    let from = match *length {
        BufferLength::Parameter(index, None) => ValueSource::Argument(index),
        BufferLength::Result => ValueSource::Result,
        BufferLength::Bytes(bytes) => return usize::try_from(bytes).ok(),
        BufferLength::Parameter(_, Some(_)) | BufferLength::Pointee(_) => return None,
    };
    let at = plan.values.iter().position(|it| it.source == from)?;
    // Below zero it is an error, and nothing is in the buffer.
    all[at].raw.map(|raw| usize::try_from(raw.cast_signed()).unwrap_or(0))
}

fn value(plan: &CallPlan, slot: ValueSlot, record: &Record) -> CallValue {
    let raw = |at: u8| record.regs.get(usize::from(at)).copied().filter(|value| *value != MISSING);
    match slot {
        ValueSlot::Absent => CallValue::NOTHING,
        ValueSlot::Value(at) => CallValue { raw: raw(at), text: None },
        ValueSlot::Text(at) => {
            // Texts are in the order of their values.
            let before = plan.texts & ((1 << at) - 1);
            let place = usize::try_from(before.count_ones()).unwrap_or(usize::MAX);
            CallValue { raw: raw(at), text: record.texts.get(place).cloned().flatten() }
        }
    }
}
