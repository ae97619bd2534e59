//! `monitor job list --nodes`: the parallel jobs of a set of nodes.
//!
//! In: a set of nodes, each of which executes `job_list`, and then `job_info` of each job. Out: a
//! row for each job of all nodes, as a table, JSON or CSV. The service of a node lists the jobs
//! that the user may see there.

use super::args::JobListArgs;
use super::job_on_nodes::NodePart;
use super::joined_job::{JobKey, JoinedJob};
use super::list::{csv_text, job_table};
use super::node_job::{REQUEST, jobs};
use super::reader::user;
use crate::cli::client::with_daemon;
use crate::cli::exit::{Exit, Failure};
use crate::cli::node_replies::{MissingNodes, NodeReplies, gather};
use crate::cli::output::{self, notice};
use monitor_client::Client;
use monitor_format::grid::Side;
use monitor_format::human;
use monitor_omis::{Value, parse};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most jobs of which more than their number of ranks is read.
const MAX_JOBS: usize = 64;

/// Prints the jobs.
///
/// # Errors
/// If no service answers, or the set of nodes is none.
pub fn list_nodes(args: &JobListArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    let socket = args.daemon.socket.as_deref();
    let found = with_daemon(socket, async |client| NodesJobs::read(&client, on).await)?;
    found.notes.iter().for_each(|note| notice(note));
    let text = match args.format.as_str() {
        "json" => {
            let jobs: Vec<Json> = found.jobs.values().map(JoinedJob::to_json).collect();
            let others = found.missing.to_json();
            output::json(&json!({
                "schema_version": 1, "jobs": jobs, "notes": found.notes, "others": others,
            }))?
        }
        form => {
            if found.jobs.is_empty() && found.missing.is_empty() {
                notice("no parallel job is visible on these nodes");
            }
            let rows: Vec<&JoinedJob> = found.jobs.values().collect();
            if form == "csv" { csv(&rows) } else { table(&rows) }
        }
    };
    let exit = output::print(text.as_bytes())?;
    Ok(found.missing.end(found.n_replies, exit))
}

/// The jobs of all nodes.
struct NodesJobs {
    jobs: BTreeMap<JobKey, JoinedJob>,
    notes: Vec<String>,
    missing: MissingNodes,
    /// Number of nodes that have listed their jobs.
    n_replies: usize,
}

impl NodesJobs {
    async fn read(client: &Client, on: (&str, Duration)) -> Result<Self, Failure> {
        let gathered = gather(client, on, REQUEST.to_owned()).await?;
        let NodeReplies { replies, missing } = NodeReplies::read(&gathered, jobs);
        let n_replies = replies.len();
        let mut found = Self { jobs: BTreeMap::new(), notes: Vec::new(), missing, n_replies };
        for (node, jobs) in replies {
            for job in jobs {
                let key = JobKey { id: job.id.clone(), uid: job.uid };
                found.jobs.entry(key).or_default().add(&node, job);
            }
        }
        found.read_ranks(client, on).await?;
        Ok(found)
    }

    /// Reads what the ranks use, of all jobs with one command.
    async fn read_ranks(&mut self, client: &Client, on: (&str, Duration)) -> Result<(), Failure> {
        if self.jobs.len() > MAX_JOBS {
            let why = format!("of more than {MAX_JOBS} jobs, what their ranks use is not read");
            self.notes.push(why);
            return Ok(());
        }
        let action = |(number, key): (usize, &JobKey)| {
            format!("{} [0] job_info({})", number + 1, Value::from(key.id.as_str()))
        };
        let line: Vec<String> = self.jobs.keys().enumerate().map(action).collect();
        if line.is_empty() {
            return Ok(());
        }
        let gathered = gather(client, on, line.join(", ")).await?;
        for it in &gathered.nodes {
            let Some(Ok(reply)) = it.reply.as_ref().map(|it| parse::reply(it.as_bytes())) else {
                self.notes.push(format!("{}: what the ranks use there is not known", it.node));
                continue;
            };
            // A node without a job answers that there is none.
            let answers = reply.0.iter().filter(|answer| answer.status.is_success());
            for (id, part) in answers.filter_map(|it| NodePart::from_results(&it.results)) {
                let mut named = self.jobs.iter_mut().filter(|(key, _)| key.id == id);
                // The same name of two users: the node has refused it.
                if let (Some((_, job)), None) = (named.next(), named.next()) {
                    job.add_ranks(&it.node, part);
                }
            }
        }
        for job in self.jobs.values() {
            self.notes.extend(job.repeated.clone());
        }
        Ok(())
    }
}

const COLUMNS: [(&str, Side); 12] = [
    ("JOB", Side::Left),
    ("RUNTIME", Side::Left),
    ("USER", Side::Left),
    ("NODES", Side::Right),
    ("HERE", Side::Right),
    ("ALL", Side::Right),
    ("STATE", Side::Left),
    ("AGE", Side::Right),
    ("CPU", Side::Right),
    ("MEM", Side::Right),
    ("SLOWEST", Side::Right),
    ("IMBAL%", Side::Right),
];

fn table(rows: &[&JoinedJob]) -> String {
    fn or_dash<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
        value.map_or_else(|| "-".to_owned(), text)
    }
    let row = |job: &&JoinedJob| {
        [
            job.id().to_owned(),
            job.runtime(),
            or_dash(job.uid(), user),
            job.nodes.len().to_string(),
            job.local_ranks().to_string(),
            or_dash(job.size(), |it| it.to_string()),
            job.state(),
            human::duration_text(job.age_s() * 1e9),
            or_dash(job.cpu_s(), |it| human::duration_text(it * 1e9)),
            or_dash(job.rss_bytes(), |it| human::scaled_text(it as f64, 1024.0)),
            or_dash(job.slowest(), |(rank, node)| format!("{rank} on {node}")),
            or_dash(job.imbalance(), |it| format!("{it:.0}")),
        ]
    };
    job_table(&COLUMNS, rows.iter().map(row))
}

fn csv(rows: &[&JoinedJob]) -> String {
    fn number<T: ToString>(number: Option<T>) -> String {
        number.map(|it| it.to_string()).unwrap_or_default()
    }
    let mut out = "id,runtime,uid,user,nodes,n_nodes,ranks,size,state,age_s,cpu_s,rss_bytes,\
                   slowest_rank,slowest_node,imbalance_percent\n"
        .to_owned();
    for job in rows {
        let slowest = job.slowest();
        let cells = [
            csv_text(job.id()),
            csv_text(&job.runtime()),
            number(job.uid()),
            csv_text(&job.uid().map(user).unwrap_or_default()),
            csv_text(&job.node_set()),
            job.nodes.len().to_string(),
            job.local_ranks().to_string(),
            number(job.size()),
            csv_text(&job.state()),
            format!("{:.3}", job.age_s()),
            job.cpu_s().map(|it| format!("{it:.3}")).unwrap_or_default(),
            number(job.rss_bytes()),
            number(slowest.map(|it| it.0)),
            csv_text(slowest.map(|it| it.1).unwrap_or_default()),
            job.imbalance().map(|it| format!("{it:.1}")).unwrap_or_default(),
        ];
        out += &cells.join(",");
        out.push('\n');
    }
    out
}
