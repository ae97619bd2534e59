//! `monitor job calls --nodes`: how long the ranks of one job are in MPI, on the nodes of a set.
//!
//! In: a job, a set of nodes, each of which executes `job_calls`. Out: the profile of all ranks:
//! calls, times and bytes are sums, the imbalance is that of all ranks. Nodes begin at about the
//! same time.

use super::args::{JobCallsArgs, Overhead};
use super::calls_text::{bytes, duration, left, optional, right, table};
use super::job_heading::JobHeading;
use super::job_on_nodes::{JobOnNodes, text};
use crate::cli::client::with_daemon;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_format::grid::Grid;
use monitor_format::human;
use monitor_format::wrap::{COLUMNS, wrap};
use monitor_jobs::call_join::join;
use monitor_jobs::call_profile::{CallProfile, CallTotals, CalledRow, RankShare};
use monitor_omis::Value;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Values of a rank, of a function, and of a place.
const RANK_VALUES: usize = 6;
const FUNCTION_VALUES: usize = 8;
const PLACE_VALUES: usize = 9;
/// The longest time of a command.
const MAX_SECONDS: u64 = 55;

/// Measures the calls of the ranks on the nodes, and prints the profile.
///
/// # Errors
/// No node has the job, or several jobs have this name; the time is too long or no whole number of
/// seconds; the set is none, or no service answers.
pub fn calls_nodes(args: &JobCallsArgs, on: (&str, Duration)) -> Result<Exit, Failure> {
    let seconds = args.span.as_secs();
    if args.span.subsec_nanos() != 0 || !(1..=MAX_SECONDS).contains(&seconds) {
        let why = format!("--for: over nodes, 1 to {MAX_SECONDS} whole seconds");
        return Err(Failure::usage(why));
    }
    let socket = args.on_nodes.daemon.socket.as_deref();
    with_daemon(socket, async |client| -> Result<Exit, Failure> {
        let mut job = JobOnNodes::find(&client, on, &args.job).await?;
        let (ranks, nodes) = (job.ranks().len(), human::escaped_text(&job.nodes()));
        let noun = if ranks == 1 { "rank" } else { "ranks" };
        output::notice(&format!("measuring {ranks} {noun} on {nodes} for {seconds}s"));
        let request = |name: &str| request(args, name);
        let mut called = job.call_each(&client, (on.1, args.span), request).await?;
        let taken = called.take(NodeCalls::from_results).into_iter();
        let parts: Vec<NodeCalls> = taken.map(|it| it.1).collect();
        if parts.is_empty() {
            let exit = called.missing.end(0, Exit::Ok);
            return Ok(if called.is_denied { Exit::Denied } else { exit });
        }
        let n_parts = parts.len();
        let calls = NodesCalls::new(&job, parts, !args.counts);
        let printed = match args.format.as_str() {
            "json" => output::json(&calls.to_json(&called.missing.to_json()))?,
            _ => calls.to_text(args.top),
        };
        let exit = output::print(printed.as_bytes())?;
        let is_partial = !calls.notes.is_empty() && exit == Exit::Ok;
        Ok(called.missing.end(n_parts, if is_partial { Exit::Partial } else { exit }))
    })
}

fn request(args: &JobCallsArgs, name: &str) -> String {
    let what = match (args.counts, args.trampoline) {
        (true, _) => "counts",
        (false, true) => "trampoline",
        (false, false) => "timed",
    };
    // Whole percent, and 0 stands for the default.
    let most = match args.max_overhead {
        Overhead::AtMost(percent) => percent.ceil().clamp(1.0, 100.0),
        Overhead::Any => 100.0,
    };
    format!("job_calls({},{},\"{what}\",{most})", Value::from(name), args.span.as_secs())
}

/// What a node has measured.
struct NodeCalls {
    profile: CallProfile,
    /// The pid of each rank.
    pids: BTreeMap<u32, u32>,
    span: Duration,
    overhead: f64,
    notes: Vec<String>,
}

impl NodeCalls {
    /// That of a reply; `None` if it is malformed.
    fn from_results(node: &str, results: &[Value]) -> Option<Self> {
        let [ranks, functions, places, seconds, overhead, notes] = results else { return None };
        let ranks = ranks.list()?.chunks(RANK_VALUES);
        let ranks: Vec<(RankShare, Option<u32>)> = ranks.map(rank).collect::<Option<_>>()?;
        let pids = ranks.iter().filter_map(|(share, pid)| Some((share.rank, (*pid)?))).collect();
        let rows = |all: &Value, n_values| -> Option<Vec<CalledRow>> {
            let whole = |values: &[Value]| row(values).filter(|_| values.len() == n_values);
            all.list()?.chunks(n_values).map(whole).collect()
        };
        let note = |it: &Value| Some(format!("{node}: {}", text(it)?));
        Some(Self {
            profile: CallProfile {
                ranks: ranks.iter().map(|it| it.0).collect(),
                functions: rows(functions, FUNCTION_VALUES)?,
                places: rows(places, PLACE_VALUES)?,
            },
            pids,
            span: Duration::try_from_secs_f64(seconds.float()?).ok()?,
            overhead: overhead.float()?,
            notes: notes.list()?.iter().map(note).collect::<Option<_>>()?,
        })
    }
}

fn rank(values: &[Value]) -> Option<(RankShare, Option<u32>)> {
    let [rank, pid, percent, calls, time, sent] = values else { return None };
    let mut sums = CallTotals { calls: calls.integer()?, ..CallTotals::default() };
    (sums.time_ns, sums.bytes) = (ns(time).unwrap_or(0), sent.integer().unwrap_or(0));
    // Times that are not known are not printed.
    sums.sized = if sent.integer::<u64>().is_some() { sums.calls } else { 0 };
    let share = RankShare { rank: rank.integer()?, sums, percent: percent.float()? };
    Some((share, pid.integer()))
}

/// A function, or a place with its name.
fn row(values: &[Value]) -> Option<CalledRow> {
    let (function, place, numbers) = match values {
        [function, numbers @ ..] if numbers.len() == FUNCTION_VALUES - 1 => {
            (function, None, numbers)
        }
        [function, place, numbers @ ..] => (function, Some(text(place)?.into()), numbers),
        _ => return None,
    };
    let [calls, time, mean, max, sent, percent, imbalance] = numbers else { return None };
    let mut sums = CallTotals { calls: calls.integer()?, ..CallTotals::default() };
    if let (Some(time_ns), Some(mean_ns)) = (ns(time), ns(mean)) {
        (sums.time_ns, sums.max_ns) = (time_ns, ns(max).unwrap_or(0));
        // The number that the mean was made with.
        let timed = if mean_ns > 0 { time_ns as f64 / mean_ns as f64 } else { 0.0 };
        sums.timed = if timed >= 1.0 { timed.round() as u64 } else { sums.calls };
    }
    if let Some(bytes) = sent.integer() {
        (sums.bytes, sums.sized) = (bytes, sums.calls);
    }
    Some(CalledRow {
        function: text(function)?.into(),
        place,
        sums,
        // It is not in the reply.
        ranks: 0,
        percent: percent.float()?.max(0.0),
        imbalance: imbalance.float().filter(|it| *it >= 0.0),
    })
}

/// A time; `None` for one that is not known.
fn ns(seconds: &Value) -> Option<u64> {
    let time = Duration::try_from_secs_f64(seconds.float()?).ok()?;
    u64::try_from(time.as_nanos()).ok()
}

/// The calls of all ranks.
struct NodesCalls {
    heading: JobHeading,
    profile: CallProfile,
    pids: BTreeMap<u32, u32>,
    hosts: BTreeMap<u32, String>,
    span: Duration,
    overhead: f64,
    notes: Vec<String>,
    is_timed: bool,
}

impl NodesCalls {
    fn new(job: &JobOnNodes, parts: Vec<NodeCalls>, is_timed: bool) -> Self {
        let profiles: Vec<CallProfile> = parts.iter().map(|it| it.profile.clone()).collect();
        Self {
            heading: job.heading(),
            profile: join(&profiles),
            pids: parts.iter().flat_map(|it| it.pids.clone()).collect(),
            hosts: job.hosts(),
            span: parts.iter().map(|it| it.span).max().unwrap_or_default(),
            overhead: parts.iter().map(|it| it.overhead).fold(0.0, f64::max),
            notes: parts.into_iter().flat_map(|it| it.notes).collect(),
            is_timed,
        }
    }

    fn to_text(&self, top: usize) -> String {
        let span = human::duration_text(self.span.as_nanos() as f64);
        let mut out = self.heading.text(self.profile.ranks.len());
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, ", measured over {span}");
        let overhead = self.overhead;
        let _ = writeln!(out, "the probes cost a rank at most {overhead:.1} % of its time");
        self.ranks(&mut out);
        let profile = &self.profile;
        for (rows, title) in [(&profile.functions, None), (&profile.places, Some("PLACE"))] {
            out.push('\n');
            table(rows, (title, self.is_timed), top, &mut out);
        }
        for note in &self.notes {
            out.push_str("note: ");
            wrap(&human::escaped_text(note), 6, COLUMNS, &mut out);
        }
        out
    }

    fn ranks(&self, out: &mut String) {
        let mut grid = Grid::default();
        let numbers = ["PID", "MPI%", "CALLS", "TIME", "SENT"].map(right);
        grid.begin([right("RANK"), left("NODE")].into_iter().chain(numbers));
        for RankShare { rank, sums, percent } in &self.profile.ranks {
            grid.cell(|out| _ = write!(out, "{rank}"));
            let host = self.hosts.get(rank).map(|it| human::escaped_text(it));
            grid.cell(|out| optional(host, out));
            grid.cell(|out| optional(self.pids.get(rank).map(u32::to_string), out));
            grid.cell(|out| optional(self.is_timed.then(|| format!("{percent:.1}")), out));
            grid.cell(|out| _ = write!(out, "{}", sums.calls));
            grid.cell(|out| duration(self.is_timed.then_some(sums.time_ns), out));
            grid.cell(|out| bytes((sums.sized > 0).then_some(sums.bytes), out));
        }
        grid.lines(COLUMNS, out);
    }

    fn to_json(&self, others: &[Json]) -> Json {
        let profile = &self.profile;
        let totals = |sums: &CallTotals| {
            let timed = |ns: u64| self.is_timed.then_some(ns);
            json!({
                "calls": sums.calls,
                "time_ns": timed(sums.time_ns),
                "bytes": (sums.sized > 0).then_some(sums.bytes),
            })
        };
        let rank = |it: &RankShare| {
            let mut out = totals(&it.sums);
            out["rank"] = it.rank.into();
            out["node"] = self.hosts.get(&it.rank).cloned().into();
            out["pid"] = self.pids.get(&it.rank).copied().into();
            out["mpi_percent"] = self.is_timed.then(|| human::rounded(it.percent)).into();
            out
        };
        let row = |it: &CalledRow| {
            let mut out = totals(&it.sums);
            out["function"] = (*it.function).into();
            if let Some(place) = &it.place {
                out["place"] = (**place).into();
            }
            out["mean_ns"] = it.sums.mean_ns().filter(|_| self.is_timed).into();
            out["max_ns"] = self.is_timed.then_some(it.sums.max_ns).into();
            out["percent"] = self.is_timed.then(|| human::rounded(it.percent)).into();
            out["imbalance_percent"] = it.imbalance.and_then(human::rounded).into();
            out
        };
        json!({
            "schema_version": 1,
            "nodes": &*self.heading.nodes,
            "job": &*self.heading.id,
            "runtime": self.heading.runtime,
            "measured_ns": u64::try_from(self.span.as_nanos()).unwrap_or(u64::MAX),
            "timed": self.is_timed,
            "overhead_percent": human::rounded(self.overhead),
            "ranks": profile.ranks.iter().map(rank).collect::<Vec<_>>(),
            "functions": profile.functions.iter().map(row).collect::<Vec<_>>(),
            "places": profile.places.iter().map(row).collect::<Vec<_>>(),
            "notes": self.notes,
            "others": others,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::parse;

    #[test]
    fn a_reply_is_a_profile_or_malformed() {
        let reply = "1 [0] job_calls(0,[0,7,25.0,10,0.5,80,1,8,-1,10,-1,-1],\
                     [\"MPI_Send\",20,1.0,0.05,0.06,160,25.0,0.0],\
                     [\"MPI_Send\",\"work\",20,1.0,0.05,0.06,160,25.0,-1],2.0,0.5,[\"a\"])";
        let results = |text: &str| {
            let reply = parse::reply(text.as_bytes()).expect("a reply");
            reply.0.into_iter().next().expect("an answer").results
        };
        let calls = NodeCalls::from_results("n1", &results(reply)).expect("a profile");
        assert_eq!(calls.pids, BTreeMap::from([(0, 7), (1, 8)]));
        let function = &calls.profile.functions[0];
        assert_eq!((function.sums.timed, function.sums.mean_ns()), (20, Some(50_000_000)));
        let place = &calls.profile.places[0];
        assert_eq!((place.place.as_deref(), place.imbalance), (Some("work"), None));
        assert_eq!((calls.notes[0].as_str(), calls.profile.ranks[1].sums.sized), ("n1: a", 0));
        let short = reply.replace(",\"work\"", "");
        assert!(NodeCalls::from_results("n1", &results(&short)).is_none());
    }
}
