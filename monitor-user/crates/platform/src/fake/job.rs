//! The ranks of jobs: all their stacks and their calls are alike, and daemons beside them are
//! processes of the script.

use super::FakePlatform;
use crate::call_measurement::{CallMeasurer, CallSpec, MeasuredCalls, values};
use crate::{ProcessAction, status_map};
use monitor_backend::call_profile::CallEnds;
use monitor_control::job_command::{CommandOutput, JobAct, OutputRange, RankLaunch};
use monitor_control::stack_rows::StackRows;
use monitor_control::tool_daemon::DaemonPlace;
use monitor_control::{DaemonSpec, StartedDaemon, WorkerReply};
use monitor_event::outcome::{ProcessResults, Refusal};
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_jobs::RankProcesses;
use monitor_jobs::call_profile::{CallTotals, RankCalls, call_profile};
use monitor_jobs::stack_class::classes;
use monitor_jobs::stack_tree::{RankFrame, RankThread, StackTree};
use monitor_model::Identity;

/// The functions that a rank is in, outermost first.
const FUNCTIONS: [&str; 2] = ["main", "work"];
/// The calls of a rank in a measurement, how long each takes in parts of the time, and its bytes.
const CALLS: u64 = 10;
const PARTS: u64 = 40;
const BYTES: u64 = 8;

impl FakePlatform {
    /// The result of an action on ranks.
    pub(super) fn act_on_job(
        &mut self,
        tool: SessionId,
        action: &ProcessAction,
    ) -> Option<ProcessResults> {
        let done = match action {
            ProcessAction::RankStacks(ranks, options) => stacks(ranks, options.looks),
            ProcessAction::StartDaemons(spec) => self.start_daemons(tool, spec),
            ProcessAction::JobCommand(command) => Ok(command_output(&command.act)),
            _ => return None,
        };
        Some(vec![(Identity::default(), done.map(status_map::reply_values))])
    }

    fn start_daemons(
        &mut self,
        tool: SessionId,
        spec: &DaemonSpec,
    ) -> Result<WorkerReply, Refusal> {
        let ranks: Vec<_> = spec.ranks.iter().map(|it| (it.rank, it.process)).collect();
        let places = DaemonPlace::all((&spec.job, spec.runtime), &ranks, spec.per);
        let mut all = Vec::new();
        for place in places {
            let id = self.start(tool, &spec.program)?;
            self.daemons.entry(tool).or_default().push(id);
            all.push(StartedDaemon { rank: place.rank(), pid: id.pid.0, outside: None });
        }
        Ok(WorkerReply::DaemonsStarted(all))
    }

    /// Ends the daemons of a tool.
    pub(super) fn end_daemons(&mut self, tool: SessionId) {
        for id in self.daemons.remove(&tool).into_iter().flatten() {
            // It may have ended by the script.
            let _ended = self.apply_action(&format!("end {} exit_code=143", id.pid.0));
        }
    }
}

/// What the commands print of a job of one rank, which has written a line and has ended.
fn command_output(act: &JobAct) -> WorkerReply {
    let stdout = match act {
        JobAct::Launch(RankLaunch { ranks: Some(_), .. }) => {
            r#"{"job":"monitor-101","host_pid":101}"#.to_owned()
        }
        JobAct::Launch(_) => r#"{"job":"launch-101","host_pid":102,"launcher_pid":103}"#.to_owned(),
        JobAct::Output(OutputRange { job, .. }) => [
            format!(
                r#"{{"output":{{"namespace":"{job}","rank":0,"is_error":false,"bytes":"aGkK"}}}}"#
            ),
            r#"{"position":3}"#.to_owned(),
            format!(r#"{{"ended":[{{"namespace":"{job}","rank":0,"code":0,"signal":null}}]}}"#),
        ]
        .join("\n"),
        JobAct::Query(_, keys) => {
            let value = |key: &String| format!("\"{key}\":1");
            let values: Vec<String> = keys.iter().map(value).collect();
            format!(r#"{{"values":{{{}}},"missing":{{}}}}"#, values.join(","))
        }
        JobAct::Notify(_) | JobAct::Log(..) => String::new(),
    };
    let stdout = stdout.into_bytes();
    WorkerReply::CommandEnded(CommandOutput { code: Some(0), stdout, stderr: Vec::new() })
}

impl CallMeasurer for FakePlatform {
    fn measure_calls(
        &mut self,
        _: Ticket,
        _: &Tool,
        spec: CallSpec,
    ) -> Result<Option<ProcessResults>, Refusal> {
        let values = values::values(&measured_calls(&spec));
        Ok(Some(vec![(Identity::default(), Ok(values))]))
    }
}

fn stacks(ranks: &[RankProcesses], looks: usize) -> Result<WorkerReply, Refusal> {
    let frame = |name: &str| RankFrame { name: name.into(), cfa: 0, pc: 0 };
    let thread = |it: &RankProcesses| {
        let stacks = vec![FUNCTIONS.into_iter().map(frame).collect(); looks];
        RankThread { rank: it.rank, pid: it.process.pid.0, tid: it.process.pid.0, stacks }
    };
    let threads: Vec<RankThread> = ranks.iter().map(thread).collect();
    let rows = StackRows::from_tree(&StackTree::merge(&threads, looks), classes(&threads));
    let rows = rows.map(|rows| StackRows { looks, ..rows });
    rows.map(WorkerReply::RankStacks).map_err(status_map::control_refusal)
}

/// The measured calls of ranks: a quarter of the time is in them.
fn measured_calls(spec: &CallSpec) -> MeasuredCalls {
    let span_ns = spec.span.as_secs() * 1_000_000_000;
    let call_ns = span_ns / PARTS;
    let timed = if spec.ends == CallEnds::Unseen { 0 } else { CALLS };
    let sums = CallTotals {
        calls: CALLS,
        timed,
        time_ns: timed * call_ns,
        max_ns: call_ns,
        sized: CALLS,
        bytes: CALLS * BYTES,
        ..CallTotals::default()
    };
    let calls = |(rank, _): &(u32, Identity)| RankCalls {
        rank: *rank,
        function: "MPI_Send".into(),
        place: FUNCTIONS[1].into(),
        sums,
    };
    let all: Vec<RankCalls> = spec.ranks.iter().map(calls).collect();
    MeasuredCalls {
        span: spec.span,
        profile: call_profile(&all, &spec.ranks.iter().map(|(it, _)| (*it, span_ns)).collect()),
        processes: spec.ranks.iter().copied().collect(),
        ends: spec.ends,
        price_ns: 0,
        error_ns: 0,
        overhead: 0.0,
        notes: Vec::new(),
        is_partial: false,
    }
}
