//! The records of this node: readings of the daemon on a connection of its own inside it.
//!
//! In: samples of two monitors that tick together, and so share one reading: users with the node,
//! and the processes of jobs. Out: one record for each sample. The connection, and with it the
//! monitors, ends when the source is dropped.

use super::record::{IS_JOB, JobProcess, RecordBuilder, UserGroup};
use crate::http::message::lines;
use crate::http::{AccessLevel, DaemonRequest, LoopbackClient};
use monitor_protocol::rollup::NodeTotals;
use monitor_sys::random;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;

/// Time between two records.
const PERIOD_NS: u64 = 1_000_000_000;
/// The tags and names of the monitors.
const JOBS: (u64, &str) = (1, "rollup-jobs");
const USERS: (u64, &str) = (2, "rollup-users");

/// A task that makes records.
pub struct RollupSource {
    task: JoinHandle<()>,
}

impl RollupSource {
    /// Starts to read on this runtime.
    pub fn start(requests: Sender<DaemonRequest>, queue: Sender<Vec<u8>>) -> Self {
        let task = tokio::spawn(async move {
            if let Err(why) = publish(&requests, &queue).await {
                tracing::warn!("no roll-ups of this node: {why}");
            }
        });
        Self { task }
    }

    /// Whether it makes records still.
    pub fn is_running(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Drop for RollupSource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn publish(requests: &Sender<DaemonRequest>, queue: &Sender<Vec<u8>>) -> Result<(), String> {
    let client = LoopbackClient::connect(requests, AccessLevel::Full).await?;
    let series = random::bytes().map(u64::from_le_bytes).map_err(|why| why.to_string())?;
    let fields = ["uid", "user", "job", "cpu_percent", "rss_bytes"];
    let fields: Vec<_> =
        fields.into_iter().chain(["read_bytes_per_s", "written_bytes_per_s"]).collect();
    let jobs = json!({
        "id": JOBS.1, "part": "proc", "filter": IS_JOB, "fields": fields, "every_ns": PERIOD_NS,
    });
    let fields = [
        "cpu_percent",
        "rss_bytes",
        "read_bytes_per_s",
        "written_bytes_per_s",
        "node.load1",
        "node.online_cpus",
        "node.cpu_busy_percent",
        "node.mem_total_bytes",
        "node.mem_available_bytes",
    ];
    let users = json!({
        "id": USERS.1, "part": "all", "group_by": "user", "fields": fields,
        "every_ns": PERIOD_NS,
    });
    client.call(JOBS.0, "monitor", &jobs).await;
    client.call(USERS.0, "monitor", &users).await;
    let mut builder = RecordBuilder::new(series);
    while let Some(chunk) = client.next_lines().await {
        for line in lines(&chunk) {
            let record = match take(line, &mut builder)? {
                MonitorOutput::Nothing => continue,
                MonitorOutput::Shutdown => return Ok(()),
                MonitorOutput::Record(record) => record,
            };
            match queue.try_send(record) {
                // The bus is behind: a record that does not come is counted by its number.
                Ok(()) | Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Closed(_)) => return Ok(()),
            }
        }
    }
    Ok(())
}

/// What a line of the daemon leads to.
#[derive(Debug, PartialEq, Eq)]
enum MonitorOutput {
    Record(Vec<u8>),
    Nothing,
    /// The daemon ends.
    Shutdown,
}

/// Handles a line.
fn take(line: &[u8], builder: &mut RecordBuilder) -> Result<MonitorOutput, String> {
    let line: MonitorLine = serde_json::from_slice(line).map_err(|why| why.to_string())?;
    if let Some(error) = line.error {
        return Err(error.message);
    }
    let Some(event) = line.result.or(line.params) else { return Ok(MonitorOutput::Nothing) };
    match event.ended.as_deref() {
        None => {}
        Some("shutdown") => return Ok(MonitorOutput::Shutdown),
        Some(why) => return Err(format!("a monitor of this node has ended: {why}")),
    }
    let Some(sample) = event.sample else { return Ok(MonitorOutput::Nothing) };
    if event.id == JOBS.1 {
        builder.jobs(sample.processes);
        return Ok(MonitorOutput::Nothing);
    }
    let lost_records = sample.lost.iter().map(|it| it.ring_full + it.table_full).sum();
    let totals = NodeTotals { lost_records, ..sample.node_stats };
    Ok(MonitorOutput::Record(builder.record(event.time_unix_ns, totals, sample.groups)))
}

/// A reply or an event of a monitor.
#[derive(Deserialize)]
struct MonitorLine {
    result: Option<MonitorEvent>,
    params: Option<MonitorEvent>,
    error: Option<CallError>,
}

#[derive(Deserialize)]
struct CallError {
    message: String,
}

#[derive(Deserialize)]
struct MonitorEvent {
    id: String,
    #[serde(default)]
    time_unix_ns: u64,
    ended: Option<String>,
    sample: Option<RollupSample>,
}

/// The parts of a sample that are read.
#[derive(Deserialize)]
struct RollupSample {
    #[serde(default)]
    processes: Vec<JobProcess>,
    #[serde(default)]
    groups: Vec<UserGroup>,
    #[serde(default)]
    node_stats: NodeTotals,
    #[serde(default)]
    lost: Vec<ProgramLoss>,
}

#[derive(Deserialize)]
struct ProgramLoss {
    #[serde(default)]
    ring_full: u64,
    #[serde(default)]
    table_full: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::rollup::NodeRollup;

    #[test]
    fn the_samples_of_both_monitors_are_one_record() {
        let mut builder = RecordBuilder::new(7);
        let jobs = br#"{"id":1,"result":{"status":"SUCCESS","id":"rollup-jobs","seq":0,
            "sample":{"processes":[{"pid":1,"uid":5,"user":"u","job":"slurm:7","rss_bytes":9}]}}}"#;
        assert_eq!(take(jobs, &mut builder), Ok(MonitorOutput::Nothing));
        let users = br#"{"method":"event","params":{"id":"rollup-users","seq":1,"time_unix_ns":3,
            "sample":{"groups":[{"by":"user","name":"u","processes":2,"cpu_percent":1.25}],
            "node_stats":{"load1":0.5,"mem_total_bytes":8},
            "lost":[{"program":"life","ring_full":3,"table_full":1}]}}}"#;
        let taken = take(users, &mut builder).expect("a sample");
        let MonitorOutput::Record(record) = taken else { panic!("no record: {taken:?}") };
        let record: NodeRollup = serde_json::from_slice(&record).expect("JSON");
        assert_eq!((record.series, record.number, record.unix_ns), (7, 0, 3));
        assert_eq!((record.totals.processes, record.totals.lost_records), (2, 4));
        assert_eq!((record.totals.load1, record.jobs[0].uid), (Some(0.5), Some(5)));
        assert_eq!(record.users[0].usage.cpu_percent, Some(1.3));
        let ended = br#"{"method":"event","params":{"id":"rollup-users","ended":"cancelled"}}"#;
        let why = "a monitor of this node has ended: cancelled";
        assert_eq!(take(ended, &mut builder), Err(why.to_owned()));
        let stops = br#"{"method":"event","params":{"id":"rollup-users","ended":"shutdown"}}"#;
        assert_eq!(take(stops, &mut builder), Ok(MonitorOutput::Shutdown));
        let refused = br#"{"id":1,"error":{"code":1,"message":"no"}}"#;
        assert_eq!(take(refused, &mut builder), Err("no".to_owned()));
    }
}
