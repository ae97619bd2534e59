//! The services as one JSON object.

use monitor_event::right::Right;
use monitor_omis::param_type::Param;
use monitor_services::ServiceSpec;
use monitor_services::spec::{FlagSpec, ResultSpec};
use serde_json::{Value, json};

/// The services as JSON.
pub fn print(specs: &[&ServiceSpec]) -> String {
    let specs: Vec<Value> = specs.iter().map(|spec| service(spec)).collect();
    format!("{}\n", json!({ "schema_version": 1, "services": specs }))
}

fn service(spec: &ServiceSpec) -> Value {
    let right = match spec.right {
        Right::Nothing => "nothing",
        Right::Observe => "observe",
        Right::Control => "control",
    };
    let takes = |it: &Param| json!({ "name": it.name, "kind": it.param_type.to_string() });
    let gives = |it: &ResultSpec| json!({ "name": it.name, "kind": it.kind });
    let flags =
        |it: &FlagSpec| json!({ "bit": it.bit, "name": it.name, "kind": it.kind, "help": it.help });
    json!({
        "name": spec.name,
        "aliases": spec.aliases,
        "prefix": spec.prefix,
        "class": spec.class().name(),
        "takes": spec.params.iter().map(takes).collect::<Vec<_>>(),
        "gives": spec.results.iter().map(gives).collect::<Vec<_>>(),
        "flags": spec.flags.iter().map(flags).collect::<Vec<_>>(),
        "needs": right,
        "level": spec.level.name(),
        "help": spec.help,
        "examples": spec.examples,
    })
}
