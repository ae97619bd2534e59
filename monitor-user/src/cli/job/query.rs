//! `monitor job query`: what the PMIx server of a job knows (`PMIx_Query_info`).
//!
//! In: a job, keys. Out: a line for each value; exit code 4 if the server has not all of them.

use super::args::JobQueryArgs;
use super::host_connection::HostConnection;
use super::target::JobTarget;
use super::tool_connection::{Connects, ask, run_apart};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, notice};
use monitor_control::host_protocol::{HostAnswer, HostRequest};
use monitor_format::human;
use monitor_jobs::Runtime;
use monitor_pmix::attribute::{Attribute, Datum};
use monitor_pmix::attribute_json::as_json;
use serde_json::{Map, Value as Json, json};
use std::slice::from_ref;

/// Names of keys, with what PMIx calls them.
const KEYS: [(&str, &str); 8] = [
    ("namespaces", "pmix.qry.ns"),
    ("proc-table", "pmix.qry.ptable"),
    ("local-proc-table", "pmix.qry.lptable"),
    ("spawn-support", "pmix.qry.spawn"),
    ("debug-support", "pmix.qry.debug"),
    ("job-status", "pmix.qry.jst"),
    ("job-size", "pmix.job.size"),
    ("servers", "pmix.qry.asrvrs"),
];

/// Keys about the server itself.
const OF_SERVER: [&str; 4] = ["pmix.qry.ns", "pmix.qry.spawn", "pmix.qry.debug", "pmix.qry.asrvrs"];

/// Asks the server for each key.
///
/// # Errors
/// As those of [`ask`]; if the output cannot be written.
pub fn query(args: &JobQueryArgs) -> Result<Exit, Failure> {
    let target = JobTarget::find(&args.job)?;
    if target.job.runtime == Runtime::Prrte
        && let Some(exit) = run_apart(Connects::from_option(args.connects))?
    {
        return Ok(exit);
    }
    let mut exit = Exit::Ok;
    let (mut text, mut values, mut missing) = (String::new(), Map::new(), Map::new());
    for (key, answer) in answers(&target, &args.keys)? {
        match answer {
            Ok(value) => {
                lines(&key, &value, &mut text);
                values.insert(key, value);
            }
            Err(why) => {
                notice(&format!("{key}: {why}"));
                missing.insert(key, why.into());
                exit = Exit::Partial;
            }
        }
    }
    if args.format == "json" {
        let id = &*target.job.id;
        let all = json!({ "schema_version": 1, "job": id, "values": values, "missing": missing });
        text = output::json(&all)?;
    }
    output::print(text.as_bytes())?;
    Ok(exit)
}

/// The value of each key, or why there is none.
type Answers = Vec<(String, Result<Json, String>)>;

fn answers(target: &JobTarget, keys: &[String]) -> Result<Answers, Failure> {
    let none = || Err("the server has no value".to_owned());
    if target.job.runtime == Runtime::Native {
        let request = HostRequest::Query {
            keys: keys.iter().map(|it| pmix_key(it).to_owned()).collect(),
            namespace: target.job.id.to_string(),
        };
        let host = HostConnection::of_job(&target.job, None)?;
        let HostAnswer::Values(values) = host.ask_once(&request)? else { return Ok(Vec::new()) };
        let value = |value: Json| if value.is_null() { none() } else { Ok(value) };
        return Ok(keys.iter().cloned().zip(values.into_iter().map(value)).collect());
    }
    let nspace = Attribute::new("pmix.nspace", Datum::text(&target.job.id));
    let keys = keys.to_vec();
    ask(target, move |tool| {
        let one = |key: &String| {
            let key = pmix_key(key);
            // Servers refuse a qualifier that a key does not have.
            let qualifiers = if OF_SERVER.contains(&key) { &[] } else { from_ref(&nspace) };
            let found = tool.query(&[key], qualifiers).map_err(|error| error.to_string())?;
            match found.as_slice() {
                [] => none(),
                [only] => Ok(as_json(&only.value)),
                several => Ok(several.iter().map(|it| as_json(&it.value)).collect()),
            }
        };
        Ok(keys.iter().map(|key| (key.clone(), one(key))).collect())
    })
}

/// The key of PMIx with a name of [`KEYS`], or the name itself.
fn pmix_key(name: &str) -> &str {
    KEYS.iter().find(|(known, _)| *known == name).map_or(name, |(_, key)| key)
}

/// Lines with the key and a value of it, separated by tabs.
fn lines(key: &str, value: &Json, out: &mut String) {
    match value {
        Json::Array(rows) => rows.iter().for_each(|row| lines(key, row, out)),
        Json::Object(row) if row.contains_key("executable") => {
            let cells = ["rank", "host", "executable", "pid"].map(|it| cell(&row[it]));
            *out += &format!("{key}\t{}\n", cells.join("\t"));
        }
        Json::Object(inner) => {
            inner.iter().for_each(|(name, it)| lines(&format!("{key}.{name}"), it, out));
        }
        other => *out += &format!("{}\t{}\n", human::escaped_text(key), cell(other)),
    }
}

fn cell(value: &Json) -> String {
    match value {
        Json::String(text) => human::escaped_text(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_rank_and_no_text_adds_one() {
        let row = json!({ "rank": 3, "host": "node0", "executable": "a\nb", "pid": 7 });
        let mut out = String::new();
        lines("proc-table", &json!([row]), &mut out);
        assert_eq!(out, "proc-table\t3\tnode0\ta\\nb\t7\n");
    }
}
