//! The record of a node, of bounded size: rows of samples are summed by job and by user.
//!
//! In: processes of jobs, sums of users, the node. Out: the bytes of a record. Those with most CPU
//! use are in it, and the others are counted.

use monitor_protocol::rollup::{
    JobUsage, MAX_JOBS, MAX_NAME, MAX_USERS, NodeRollup, NodeTotals, Usage, UserUsage, VERSION,
};
use serde::Deserialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A condition on processes of jobs: of batch systems, of MPI, of pods. Units of systemd, login
/// sessions and containers are no jobs of a cluster.
pub const IS_JOB: &str = "job !~ \"unit:\" and job !~ \"session:\" and job !~ \"container:\"";

/// A process of a job, as a sample has it.
#[derive(Debug, Default, Deserialize)]
pub struct JobProcess {
    /// Its user.
    pub uid: Option<u32>,
    /// The name of that user.
    pub user: Option<String>,
    /// The name of its job; empty if it has none.
    #[serde(default)]
    pub job: String,
    /// CPU use in percent of one processor.
    pub cpu_percent: Option<f64>,
    /// Resident memory.
    #[serde(default)]
    pub rss_bytes: u64,
    /// Bytes read from storage a second.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written to storage a second.
    pub written_bytes_per_s: Option<f64>,
}

/// The processes of a user, as a sample has them.
#[derive(Debug, Default, Deserialize)]
pub struct UserGroup {
    /// The name of the user, or the user id.
    pub name: String,
    /// What they use.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Makes the records of a node.
pub struct RecordBuilder {
    series: u64,
    number: u64,
    jobs: Vec<JobUsage>,
    other_jobs: u64,
}

impl RecordBuilder {
    /// For a series with this random number.
    pub const fn new(series: u64) -> Self {
        Self { series, number: 0, jobs: Vec::new(), other_jobs: 0 }
    }

    /// Takes the processes of jobs. A job is one of one user: a name that others use is another
    /// job, so that no user can add to the sums of another one.
    pub fn jobs(&mut self, processes: Vec<JobProcess>) {
        let mut jobs: BTreeMap<(String, Option<u32>), JobUsage> = BTreeMap::new();
        for process in processes.into_iter().filter(|it| !it.job.is_empty()) {
            let JobProcess { uid, user, job, cpu_percent, rss_bytes, .. } = process;
            let name = shortened(job);
            let own = Usage {
                processes: 1,
                cpu_percent,
                rss_bytes,
                read_bytes_per_s: process.read_bytes_per_s,
                written_bytes_per_s: process.written_bytes_per_s,
            };
            let user = user.map(shortened);
            let new = || JobUsage { name: name.clone(), uid, user, usage: Usage::default() };
            jobs.entry((name.clone(), uid)).or_insert_with(new).usage.add(&own);
        }
        let mut jobs: Vec<_> = jobs.into_values().collect();
        jobs.sort_by(|a, b| by_use(&a.usage, &b.usage));
        self.other_jobs = jobs.len().saturating_sub(MAX_JOBS) as u64;
        jobs.truncate(MAX_JOBS);
        jobs.iter_mut().for_each(|it| round(&mut it.usage));
        self.jobs = jobs;
    }

    /// The bytes of the record of a sample, with the jobs that were taken last.
    pub fn record(&mut self, unix_ns: u64, totals: NodeTotals, groups: Vec<UserGroup>) -> Vec<u8> {
        // Numbers and texts can always be written as JSON.
        serde_json::to_vec(&self.rollup(unix_ns, totals, groups)).unwrap_or_default()
    }

    /// The record of a sample, with the jobs that were taken last.
    pub fn rollup(
        &mut self,
        unix_ns: u64,
        totals: NodeTotals,
        groups: Vec<UserGroup>,
    ) -> NodeRollup {
        let processes = groups.iter().map(|it| it.usage.processes).sum();
        // A user whose processes have all ended remains a group for a while.
        let mut users: Vec<_> = groups
            .into_iter()
            .filter(|it| it.usage.processes > 0)
            .map(|it| UserUsage { name: shortened(it.name), usage: it.usage })
            .collect();
        users.sort_by(|a, b| by_use(&a.usage, &b.usage));
        let other_users = users.len().saturating_sub(MAX_USERS) as u64;
        users.truncate(MAX_USERS);
        users.iter_mut().for_each(|it| round(&mut it.usage));
        let record = NodeRollup {
            version: VERSION,
            series: self.series,
            number: self.number,
            unix_ns,
            totals: NodeTotals { processes, ..totals },
            jobs: self.jobs.clone(),
            other_jobs: self.other_jobs,
            users,
            other_users,
        };
        self.number += 1;
        record
    }
}

/// Most CPU use first, then most memory.
pub fn by_use(one: &Usage, other: &Usage) -> Ordering {
    let cpu = |it: &Usage| it.cpu_percent.unwrap_or(0.0);
    cpu(other).total_cmp(&cpu(one)).then(other.rss_bytes.cmp(&one.rss_bytes))
}

/// One digit after the point is what is shown; more makes records longer.
fn round(usage: &mut Usage) {
    usage.cpu_percent = usage.cpu_percent.map(|it| (it * 10.0).round() / 10.0);
    usage.read_bytes_per_s = usage.read_bytes_per_s.map(f64::round);
    usage.written_bytes_per_s = usage.written_bytes_per_s.map(f64::round);
}

/// The beginning of a name that is too long; its end is marked.
fn shortened(name: String) -> String {
    const MARK: &str = "…";
    if name.len() <= MAX_NAME {
        return name;
    }
    let mut end = MAX_NAME - MARK.len();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MARK}", &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::rollup::MAX_RECORD;

    fn process(job: &str, uid: u32, cpu_percent: f64) -> JobProcess {
        let (uid, job, cpu_percent) = (Some(uid), job.to_owned(), Some(cpu_percent));
        JobProcess { uid, job, cpu_percent, ..JobProcess::default() }
    }

    fn read(bytes: &[u8]) -> NodeRollup {
        serde_json::from_slice(bytes).expect("a record")
    }

    #[test]
    fn processes_are_summed_by_job_and_a_name_of_another_user_is_another_job() {
        let mut builder = RecordBuilder::new(1);
        builder.jobs(vec![
            process("slurm:7", 5, 1.0),
            process("slurm:7", 6, 9.0),
            process("slurm:7", 5, 2.04),
            process("", 5, 2.0),
        ]);
        let record = read(&builder.record(1, NodeTotals::default(), Vec::new()));
        let jobs: Vec<_> = record
            .jobs
            .iter()
            .map(|it| (it.uid, it.usage.processes, it.usage.cpu_percent))
            .collect();
        assert_eq!(jobs, [(Some(6), 1, Some(9.0)), (Some(5), 2, Some(3.0))]);
        let next = read(&builder.record(2, NodeTotals::default(), Vec::new()));
        assert_eq!((record.number, next.number, next.jobs.len()), (0, 1, 2));
    }

    #[test]
    fn a_record_has_a_bounded_size_and_counts_what_it_leaves_out() {
        let mut builder = RecordBuilder::new(1);
        let long = "\u{1}".repeat(4096);
        let processes = (0..5000_u32).map(|at| process(&format!("{at}{long}"), at, f64::from(at)));
        builder.jobs(processes.collect());
        let user = |at: u32| UserGroup {
            name: format!("{at}{long}"),
            usage: Usage { processes: 1, ..Usage::default() },
        };
        let users = (0..5000).map(user).chain([UserGroup::default()]).collect();
        let bytes = builder.record(1, NodeTotals::default(), users);
        let record = read(&bytes);
        assert!(bytes.len() <= MAX_RECORD, "{}", bytes.len());
        assert_eq!((record.jobs.len(), record.other_jobs), (MAX_JOBS, 5000 - MAX_JOBS as u64));
        assert_eq!((record.users.len(), record.other_users), (MAX_USERS, 5000 - MAX_USERS as u64));
        assert_eq!(record.jobs[0].uid, Some(4999));
        assert_eq!(record.totals.processes, 5000);
        assert!(record.jobs.iter().all(|it| it.name.len() <= MAX_NAME && it.name.ends_with('…')));
    }
}
