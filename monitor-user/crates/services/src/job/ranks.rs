//! `job_ranks`, and the values of a rank as data again.
//!
//! In: the name of a job as samples and roll-ups have it, and its user. Out: the ranks of all
//! parallel jobs whose processes count for it. For what reads replies of other nodes: the values of
//! a rank, and what it uses between two of them.

use super::{job_text, jobs, rank_values, readable_file, visible_processes};
use crate::{CallContext, Handler, Outcome, ResultSpec, ServiceSpec, spec::param};
use monitor_event::{CallResult, Refusal};
use monitor_jobs::rank_table::{QUANTITIES, Quantity};
use monitor_jobs::{ParallelJob, RankProcesses, RankRow, rank_table};
use monitor_model::{Identity, Ns, Pid, Process};
use monitor_omis::{Value, param_type::ParamType};
use std::sync::Arc;

/// Values of a rank in replies to `job_info`; in those to `job_ranks` its job comes first.
pub const RANK_VALUES: usize = 8;
/// The end of a name of which only the beginning is written.
const CUT: char = '…';

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "job_ranks",
    params: &[param("name", ParamType::Text), param("uid", ParamType::Integer)],
    results: &[ResultSpec::new(
        "ranks",
        "{string job; integer rank; string host; integer pid; string executable; string state; \
         floating cpu_time; floating run_delay; integer memory_size}*",
    )],
    help: "Returns the ranks on the node of all parallel jobs that count for one job of a batch \
           system or of a runtime: `name` is that of the field `job`, such as `slurm:77` or \
           `mpi:77`, or its beginning with … after it; `uid` is the user, -1 for an unknown one. \
           Of each rank: the id of its parallel job, and what `job_info` has. The list is empty \
           if no such rank is there, or the caller may not see it.",
    examples: &[
        "process 7 ppid=6 uid=1000 comm=a state=R cpu_ns=1500ms rss_bytes=1M \
         $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
         process 8 uid=1001 $PMIX_NAMESPACE=77 $PMIX_RANK=1\n\
         > 10 [0] job_ranks(\"mpi:77\",1000)\n\
         < 10 [0] job_ranks(0,[\"77\",0,\"node0\",7,\"[a]\",\"R\",1.5,-1.0,1048576])",
        "process 7 uid=1000 comm=a state=S $SLURM_JOB_ID=5 $SLURM_STEP_ID=0 $SLURM_PROCID=3\n\
         process 8 uid=1000 comm=b state=S $SLURM_JOB_ID=5 $PMIX_NAMESPACE=x $PMIX_RANK=0\n\
         > 10 [0] job_ranks(\"slurm:5\",1000)\n\
         < 10 [0] job_ranks(0,[\"5.0\",3,\"node0\",7,\"[a]\",\"S\",0.0,-1.0,-1,\
         \"x\",0,\"node0\",8,\"[b]\",\"S\",0.0,-1.0,-1])",
        "process 7 uid=1000 comm=a state=S $PMIX_NAMESPACE=77 $PMIX_RANK=0\n\
         > 10 [0] job_ranks(\"mpi:7\",1000)\n< 10 [0] job_ranks(0,[])",
    ],
    handler: Handler::Synchronous(job_ranks),
    ..super::BLANK
}];

fn job_ranks(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let name = job_text(args);
    let uid: Option<u32> = args.get(1).and_then(Value::integer);
    let processes = visible_processes(ctx)?;
    let jobs = jobs(ctx, &processes);
    let own = ctx.members.iter().find(|member| member.node == ctx.node);
    let host: Arc<str> = own.map_or("", |member| &member.name).into();
    let mut out = Vec::new();
    for job in jobs.iter().filter(|job| job.uid == uid) {
        let ranks = counted_for(&name, job, &processes);
        if ranks.is_empty() {
            continue;
        }
        let table = rank_table(job, (&host, &processes), &|process| readable_file(ctx, process));
        for values in rank_values(&ranks, &table, &processes).chunks(RANK_VALUES) {
            out.push(Value::from(&*job.id));
            out.extend_from_slice(values);
        }
    }
    Ok(CallResult::with(vec![Value::List(out)]).into())
}

/// The ranks whose process counts for a job of this name.
fn counted_for<'j>(
    name: &str,
    job: &'j ParallelJob,
    processes: &[Process],
) -> Vec<&'j RankProcesses> {
    let is_named = |rank: &&RankProcesses| {
        let found = processes.binary_search_by_key(&rank.process, |it| it.id);
        let own = found.ok().and_then(|index| processes[index].text.job.as_deref());
        own.is_some_and(|own| is_name(own, name))
    };
    job.ranks.iter().filter(is_named).collect()
}

fn is_name(name: &str, written: &str) -> bool {
    let beginning = written.strip_suffix(CUT).filter(|it| !it.is_empty());
    name == written || beginning.is_some_and(|it| name.starts_with(it))
}

/// A rank on a node, as replies have it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRank {
    /// Its number.
    pub rank: u32,
    /// The process that the runtime started.
    pub pid: u32,
    /// The file that it executes.
    pub executable: String,
    /// The state of the process, as ps(1) prints it.
    pub state: char,
    /// Seconds on a CPU; absent if not known.
    pub cpu_s: Option<f64>,
    /// Seconds ready to run and waiting for a CPU; absent if not known.
    pub delay_s: Option<f64>,
    /// Resident memory, bytes; absent if not known.
    pub rss_bytes: Option<u64>,
}

impl NodeRank {
    /// From the values of a rank; `None` if they are none.
    pub fn from_values(values: &[Value]) -> Option<Self> {
        let [rank, _, pid, executable, state, cpu, delay, rss] = values else { return None };
        Some(Self {
            rank: rank.integer()?,
            pid: pid.integer()?,
            executable: executable.text()?.to_str_lossy().into_owned(),
            state: state.text()?.to_str_lossy().chars().next()?,
            cpu_s: seconds(cpu),
            delay_s: seconds(delay),
            rss_bytes: rss.integer(),
        })
    }

    /// The ranks of a reply to `job_ranks`, each with its parallel job; `None` if it is malformed.
    pub fn of_jobs(results: &[Value]) -> Option<Vec<(String, Self)>> {
        let [ranks] = results else { return None };
        let rank = |values: &[Value]| {
            let (job, rest) = values.split_first()?;
            Some((job.text()?.to_str_lossy().into_owned(), Self::from_values(rest)?))
        };
        ranks.list()?.chunks(1 + RANK_VALUES).map(rank).collect()
    }

    /// A row of the table of a job, with what it uses since an earlier reply of this node, which
    /// came this number of seconds before.
    pub fn row(&self, node: &str, earlier: Option<&Self>, apart_s: f64) -> RankRow {
        let percent = |value: fn(&Self) -> Option<f64>| {
            let grown = value(self)? - value(earlier?)?;
            (apart_s > 0.0).then(|| (grown / apart_s * 100.0).max(0.0))
        };
        let mut values = [None; QUANTITIES];
        values[Quantity::Cpu as usize] = percent(|it| it.cpu_s);
        values[Quantity::Delay as usize] = percent(|it| it.delay_s);
        values[Quantity::Memory as usize] = self.rss_bytes.map(|bytes| bytes as f64);
        RankRow {
            rank: self.rank,
            host: node.into(),
            process: Identity { pid: Pid(self.pid), start: Ns(0) },
            executable: self.executable.as_str().into(),
            state: self.state,
            processes: 1,
            cpu_ns: self.cpu_s.map(|seconds| seconds * 1e9),
            values,
            deviations: [None; QUANTITIES],
        }
    }
}

/// Seconds, unless they are -1.
fn seconds(value: &Value) -> Option<f64> {
    value.float().filter(|seconds| *seconds >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_cut_is_the_beginning() {
        assert!(is_name("mpi:abc", "mpi:abc") && is_name("mpi:abc", "mpi:a…"));
        assert!(!is_name("mpi:abc", "mpi:a") && !is_name("mpi:abc", "…"));
    }

    #[test]
    fn ranks_of_a_reply_have_their_job() {
        let texts = |text: &str| Value::from(text);
        let values = |rank: i32| {
            let [id, host, file, state] = ["a@1", "n1", "/x", "S"].map(texts);
            let cpu = Value::from(-1.0);
            [id, Value::from(rank), host, Value::from(7), file, state, cpu, Value::from(1.5)]
                .into_iter()
                .chain([Value::from(-1)])
        };
        let list = Value::List(values(0).chain(values(1)).collect());
        let found = NodeRank::of_jobs(&[list]).expect("ranks");
        let ranks: Vec<_> = found.iter().map(|(id, rank)| (id.as_str(), rank.rank)).collect();
        assert_eq!(ranks, [("a@1", 0), ("a@1", 1)]);
        let rank = &found[0].1;
        assert_eq!((rank.cpu_s, rank.delay_s, rank.rss_bytes), (None, Some(1.5), None));
        assert_eq!(NodeRank::of_jobs(&[Value::List(values(0).take(5).collect())]), None);
        assert_eq!(NodeRank::of_jobs(&[Value::List(Vec::new())]), Some(Vec::new()));
    }

    #[test]
    fn use_is_that_between_two_replies() {
        let at = |cpu_s| NodeRank {
            rank: 3,
            pid: 7,
            executable: "/x".into(),
            state: 'R',
            cpu_s: Some(cpu_s),
            delay_s: None,
            rss_bytes: Some(1 << 20),
        };
        let cpu = |earlier: Option<&NodeRank>, apart| {
            at(2.0).row("n1", earlier, apart).value(Quantity::Cpu)
        };
        assert_eq!((cpu(Some(&at(1.0)), 2.0), cpu(None, 2.0)), (Some(50.0), None));
        // A process of the rank has ended, and its time with it.
        assert_eq!((cpu(Some(&at(5.0)), 2.0), cpu(Some(&at(1.0)), 0.0)), (Some(0.0), None));
    }
}
