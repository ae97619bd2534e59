//! Values of PMIx as JSON.

use crate::attribute::{Datum, NodePid, TableLine};
use crate::kind;
use serde_json::{Value as Json, json};
use std::ffi::CStr;

/// The value as JSON: a process table is a list of objects, a rank has its namespace.
pub fn as_json(value: &Datum) -> Json {
    match value {
        Datum::Present => json!(true),
        Datum::Number(kind::BOOL, word) => json!(*word != 0),
        Datum::Number(kind::INT | kind::INT32 | kind::STATUS, word) => {
            // Four bytes with a sign.
            json!(u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0).cast_signed())
        }
        Datum::Number(kind::FLOAT, word) => {
            json!(f32::from_bits(u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0)))
        }
        Datum::Number(_, word) => json!(word),
        Datum::Timeval(seconds, micros) => json!([seconds, micros]),
        Datum::Text(text) => json!(words(text)),
        Datum::Bytes(bytes) => json!(bytes),
        Datum::Proc(name) => json!({ "namespace": name.nspace, "rank": name.rank }),
        Datum::Procs(names) => names.iter().map(|it| as_json(&Datum::Proc(it.clone()))).collect(),
        Datum::Texts(texts) => texts.iter().map(|it| words(it)).collect(),
        Datum::Numbers(kind, all) => {
            all.iter().map(|it| as_json(&Datum::Number(*kind, *it))).collect()
        }
        Datum::NodePids(all) => all.iter().map(node_pid).collect(),
        Datum::Attributes(all) => {
            Json::Object(all.iter().map(|it| (it.key.clone(), as_json(&it.value))).collect())
        }
        Datum::Variable(name, value, _) => json!([words(name), words(value)]),
        Datum::Table(rows) => rows.iter().map(row).collect(),
        Datum::Other(kind) => json!({ "type": kind }),
    }
}

fn words(text: &CStr) -> String {
    text.to_string_lossy().into_owned()
}

fn node_pid(process: &NodePid) -> Json {
    let host = process.host.as_deref().map(words);
    json!({ "host": host, "node": process.node, "pid": process.pid })
}

fn row(row: &TableLine) -> Json {
    json!({
        "rank": row.name.rank, "host": words(&row.host), "executable": words(&row.executable),
        "pid": row.pid, "exit_code": row.exit_code, "state": row.state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_a_sign() {
        let status = Datum::Number(kind::STATUS, u64::from((-46i32).cast_unsigned()));
        assert_eq!(as_json(&status), json!(-46));
        assert_eq!(as_json(&Datum::float(0.5)), json!(0.5));
    }
}
