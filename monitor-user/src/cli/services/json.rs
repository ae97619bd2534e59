//! Rows as JSON, one object for all.

use monitor_event::right::Right;
use monitor_omis::kind::Param;
use monitor_services::Row;
use monitor_services::row::{Flag, Given};
use serde_json::{Value, json};

/// The services.
pub fn print(rows: &[&Row]) -> String {
    let rows: Vec<Value> = rows.iter().map(|row| service(row)).collect();
    format!("{}\n", json!({ "schema_version": 1, "services": rows }))
}

fn service(row: &Row) -> Value {
    let right = match row.right {
        Right::Nothing => "nothing",
        Right::Observe => "observe",
        Right::Control => "control",
    };
    let takes = |it: &Param| json!({ "name": it.name, "kind": it.kind.to_string() });
    let gives = |it: &Given| json!({ "name": it.name, "kind": it.kind });
    let flags =
        |it: &Flag| json!({ "bit": it.bit, "name": it.name, "kind": it.kind, "help": it.help });
    json!({
        "name": row.name,
        "aliases": row.aliases,
        "prefix": row.prefix,
        "class": row.class().name(),
        "takes": row.takes.iter().map(takes).collect::<Vec<_>>(),
        "gives": row.gives.iter().map(gives).collect::<Vec<_>>(),
        "flags": row.flags.iter().map(flags).collect::<Vec<_>>(),
        "needs": right,
        "level": row.level.name(),
        "help": row.help,
        "examples": row.examples,
    })
}
