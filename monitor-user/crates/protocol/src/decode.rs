//! Decodes a sample from its JSON, for clients that convert it to another format.
//!
//! In: the object that `monitor_format::json` writes. Out: rows with the rates of the service.
//! Unknown keys are ignored; values of the wrong type are absent.

use super::signal;
use monitor_model::{
    BackendKind, Category, Device, Group, Grouped, Identity, Node, Note, Ns, Pid, Process,
    ProcessField, ProcessTexts, ProgramLoss, Rates, Row, Sample, ValueKind,
};
use serde_json::{Map, Value};

/// Decodes a sample.
///
/// # Errors
/// If the text is not a JSON object.
pub fn rates(json: &str) -> Result<Rates, serde_json::Error> {
    let object: Map<String, Value> = serde_json::from_str(json)?;
    let number = |key: &str| object.get(key).and_then(Value::as_u64);
    let mut sample = Sample {
        backend: BackendKind::from_name(text(&object, "backend")),
        node: text(&object, "node").into(),
        time_error: Ns(number("time_error_ns").unwrap_or(0)),
        processes: list(&object, "processes").map(process).collect(),
        node_stats: object.get("node_stats").and_then(Value::as_object).map(node),
        notes: list_of(&object, "notes").filter_map(Value::as_str).map(Note::remark).collect(),
        lost: list(&object, "lost").map(lost).collect(),
        ..Sample::default()
    };
    // Without the key rows were selected, or an older service does not say.
    sample.all_visible = object.get("all_visible").and_then(Value::as_bool).unwrap_or(false);
    sample.at.unix = Ns(number("time_unix_ns").unwrap_or(0));
    // The JSON has no boot time: events and the sample use the realtime clock.
    sample.at.boot = sample.at.unix;
    let names = &mut sample.names;
    let events = list_of(&object, "events").filter_map(|event| signal::event(event, names));
    sample.events = events.collect();
    let groups = object.contains_key("groups").then(|| grouped(&object));
    Ok(Rates { interval: number("interval_ns").map(Ns), sample, groups })
}

fn grouped(object: &Map<String, Value>) -> Grouped {
    let groups: Vec<_> = list(object, "groups").map(group).collect();
    let finished: Vec<_> = list(object, "finished_groups").map(group).collect();
    // Without any group the key is unknown.
    let by = groups.iter().chain(&finished).next().map(|group| group.by).unwrap_or_default();
    Grouped { by, groups, finished }
}

fn group(object: &Map<String, Value>) -> Group {
    Group {
        by: text(object, "by").parse().unwrap_or_default(),
        name: text(object, "name").into(),
        head: row(object),
        row: row(object),
        ..Group::default()
    }
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list_of<'a>(object: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    object.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn list<'a>(
    object: &'a Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a Map<String, Value>> {
    list_of(object, key).filter_map(Value::as_object)
}

fn process(object: &Map<String, Value>) -> Process {
    let shared = |key| object.get(key).and_then(Value::as_str).map(Into::into);
    let mut process = Process {
        row: row(object),
        text: ProcessTexts {
            cmdline: shared("cmdline"),
            path: shared("path"),
            cgroup: shared("cgroup"),
            user: shared("user"),
            job: shared("job"),
            rank: None,
            origin: None,
        },
        threads: list(object, "thread_list").map(process).collect(),
        disks: list(object, "disks").map(|it| device(it, "device")).collect(),
        ..Process::default()
    };
    for (to, &from) in process.comm.iter_mut().zip(text(object, "comm").as_bytes()) {
        *to = from;
    }
    let number = |field| process.row.get(field).unwrap_or(0);
    let pid = u32::try_from(number(ProcessField::Pid)).unwrap_or(0);
    process.id = Identity { pid: Pid(pid), start: Ns(number(ProcessField::StartTime)) };
    process
}

fn node(object: &Map<String, Value>) -> Node {
    let number = |it: &Map<String, Value>| it.get("cpu").and_then(Value::as_u64);
    let cpu = |it| Some((u32::try_from(number(it)?).ok()?, row(it)));
    Node {
        row: row(object),
        cpus: list(object, "cpus").filter_map(cpu).collect(),
        disks: list(object, "disks").map(|it| device(it, "device")).collect(),
        nets: list(object, "nets").map(|it| device(it, "interface")).collect(),
    }
}

fn device<F: Category, const N: usize>(
    object: &Map<String, Value>,
    name: &str,
) -> Device<Row<F, N>> {
    Device { name: text(object, name).into(), row: row(object) }
}

fn row<F: Category, const N: usize>(object: &Map<String, Value>) -> Row<F, N> {
    let mut row = Row::default();
    for (key, value) in object {
        let Some(field) = F::from_name(key) else { continue };
        row.set_some(field, bits(field.field().kind, value));
    }
    row
}

/// The bits of a value of this kind.
fn bits(kind: ValueKind, value: &Value) -> Option<u64> {
    match kind {
        ValueKind::Number => value.as_u64(),
        ValueKind::Signed => value.as_i64().map(i64::cast_unsigned),
        ValueKind::Float => value.as_f64().map(f64::to_bits),
        ValueKind::Flag => value.as_bool().map(u64::from),
        ValueKind::Letter => value.as_str()?.bytes().next().map(u64::from),
        ValueKind::Text => None,
    }
}

fn lost(object: &Map<String, Value>) -> ProgramLoss {
    let number = |key: &str| object.get(key).and_then(Value::as_u64).unwrap_or(0);
    ProgramLoss {
        program: text(object, "program").to_owned().into(),
        ring_full: number("ring_full"),
        table_full: number("table_full"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_wrong_type_are_absent() {
        let text = r#"{"processes":[{"pid":"x","cpu_ns":-1,"state":"","nice":1e99}]}"#;
        let rates = rates(text).expect("an object");
        assert_eq!(rates.sample.processes[0].row, Default::default());
    }
}
