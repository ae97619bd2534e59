//! `monitor job list --nodes`: the parallel jobs of each node of a set.
//!
//! In: a set of nodes, each of which executes `job_list`. Out: a row for each job on each node, as
//! a table, JSON or CSV. The service of a node lists the jobs that the user may see there.

use super::args::JobListArgs;
use super::list::{csv_text, job_table};
use super::reader::user;
use crate::cli::client::with_daemon;
use crate::cli::exit::{Exit, Failure};
use crate::cli::node_replies::{NodeReplies, gather};
use crate::cli::output::{self, notice};
use monitor_format::grid::Side;
use monitor_format::human;
use monitor_omis::{Status, Value, parse};
use serde_json::{Value as Json, json};
use std::time::Duration;

/// The request.
const REQUEST: &str = "1 [0] job_list()";
/// Values of a job in its reply.
const VALUES: usize = 8;

/// Prints the jobs.
///
/// # Errors
/// If no service answers, or the set of nodes is none.
pub fn list_nodes(args: &JobListArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    let socket = args.daemon.socket.as_deref();
    let gathered =
        with_daemon(socket, async |client| gather(&client, on, REQUEST.to_owned()).await)?;
    let found = NodeReplies::read(&gathered, jobs);
    let rows: Vec<(&str, &NodeJob)> = found
        .replies
        .iter()
        .flat_map(|(node, jobs)| jobs.iter().map(move |job| (node.as_str(), job)))
        .collect();
    let text = match args.format.as_str() {
        "json" => {
            let jobs: Vec<Json> = rows.iter().map(|(node, job)| job.to_json(node)).collect();
            let others = found.missing.to_json();
            output::json(&json!({ "schema_version": 1, "jobs": jobs, "others": others }))?
        }
        form => {
            if rows.is_empty() && found.missing.is_empty() {
                notice("no parallel job is visible on these nodes");
            }
            if form == "csv" { csv(&rows) } else { table(&rows) }
        }
    };
    let exit = output::print(text.as_bytes())?;
    Ok(found.missing.end(found.replies.len(), exit))
}

/// A job on a node, as `job_list` describes it.
#[derive(Debug, PartialEq)]
struct NodeJob {
    id: String,
    runtime: String,
    launcher: Option<u32>,
    uid: Option<u32>,
    local_ranks: Option<u32>,
    size: Option<u32>,
    state: String,
    age_s: f64,
}

/// The jobs of a reply.
fn jobs(reply: &str) -> Result<Vec<NodeJob>, String> {
    let reply = parse::reply(reply.as_bytes()).map_err(|why| why.to_string())?;
    let answer = reply.0.first().ok_or("its reply is empty")?;
    if answer.status != Status::OK {
        let detail = answer.results.first().and_then(Value::text);
        let detail = detail.map(|text| format!(": {}", String::from_utf8_lossy(text.as_bytes())));
        return Err(format!("status {}{}", answer.status.0, detail.unwrap_or_default()));
    }
    let Some(Value::List(values)) = answer.results.first() else {
        return Err("its reply has no list of jobs".to_owned());
    };
    let rows = values.chunks_exact(VALUES).map(NodeJob::from_values);
    let jobs: Option<Vec<NodeJob>> = rows.collect();
    jobs.filter(|_| values.len() % VALUES == 0).ok_or_else(|| "its reply is malformed".to_owned())
}

impl NodeJob {
    fn from_values(values: &[Value]) -> Option<Self> {
        let text = |value: &Value| {
            value.text().map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned())
        };
        // -1 stands for an unknown number.
        let number = |value: &Value| value.integer::<u32>();
        let [id, runtime, launcher, uid, local_ranks, size, state, age] = values else {
            return None;
        };
        let age_s = match age {
            Value::Float(seconds) => seconds.0,
            whole => f64::from(whole.integer::<u32>()?),
        };
        Some(Self {
            id: text(id)?,
            runtime: text(runtime)?,
            launcher: number(launcher),
            uid: number(uid),
            local_ranks: number(local_ranks),
            size: number(size),
            state: text(state)?,
            age_s,
        })
    }

    fn to_json(&self, node: &str) -> Json {
        json!({
            "node": node,
            "id": self.id,
            "runtime": self.runtime,
            "launcher_pid": self.launcher,
            "uid": self.uid,
            "user": self.uid.map(user),
            "local_ranks": self.local_ranks,
            "size": self.size,
            "state": self.state,
            "age_s": self.age_s,
        })
    }
}

const COLUMNS: [(&str, Side); 9] = [
    ("NODE", Side::Left),
    ("JOB", Side::Left),
    ("RUNTIME", Side::Left),
    ("LAUNCHER", Side::Right),
    ("USER", Side::Left),
    ("HERE", Side::Right),
    ("ALL", Side::Right),
    ("STATE", Side::Left),
    ("AGE", Side::Right),
];

fn table(rows: &[(&str, &NodeJob)]) -> String {
    let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |it| it.to_string());
    let row = |(node, job): &(&str, &NodeJob)| {
        [
            (*node).to_owned(),
            job.id.clone(),
            job.runtime.clone(),
            number(job.launcher),
            job.uid.map_or_else(|| "-".to_owned(), user),
            number(job.local_ranks),
            number(job.size),
            job.state.clone(),
            human::duration_text(job.age_s * 1e9),
        ]
    };
    job_table(&COLUMNS, rows.iter().map(row))
}

fn csv(rows: &[(&str, &NodeJob)]) -> String {
    let number = |number: Option<u32>| number.map(|it| it.to_string()).unwrap_or_default();
    let mut out = "node,id,runtime,launcher_pid,uid,user,local_ranks,size,state,age_s\n".to_owned();
    for (node, job) in rows {
        let cells = [
            csv_text(node),
            csv_text(&job.id),
            csv_text(&job.runtime),
            number(job.launcher),
            number(job.uid),
            csv_text(&job.uid.map(user).unwrap_or_default()),
            number(job.local_ranks),
            number(job.size),
            csv_text(&job.state),
            format!("{:.3}", job.age_s),
        ];
        out += &cells.join(",");
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_rows_with_their_node_and_unknown_numbers_are_absent() {
        let reply = r#"1 [0] job_list(0,["77","openmpi4",6,1000,1,-1,"running",9.5])"#;
        let found = jobs(reply).unwrap();
        assert_eq!((found[0].launcher, found[0].size, found[0].age_s), (Some(6), None, 9.5));
        let json = found[0].to_json("n1");
        assert_eq!((&json["node"], &json["size"]), (&json!("n1"), &Json::Null));
        let text = csv(&[("n1", &found[0])]);
        assert!(text.ends_with(",1,,running,9.500\n") && text.contains("\nn1,77,openmpi4,6,1000,"));
        assert_eq!(jobs("1 [0] job_list(0,[])"), Ok(vec![]));
    }

    #[test]
    fn a_reply_that_is_none_is_a_reason() {
        let why = |reply: &str| jobs(reply).unwrap_err();
        assert_eq!(why("1 [0] job_list(400)"), "status 400");
        assert_eq!(why(r#"1 [0] job_list(0,["77"])"#), "its reply is malformed");
        assert_eq!(why("1 [0] job_list(0)"), "its reply has no list of jobs");
        assert!(jobs("nonsense").is_err());
    }
}
