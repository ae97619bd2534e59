//! `job_output`, `job_query`, `job_notify`, `job_log`: what the PMIx server of a job knows and does
//! and what the ranks of `job_launch` have written.
//!
//! In: a job, and what a tool asks. Out: what the command of the same name prints, as values.

use super::act::JOB;
use super::command::{malformed, printed, run, text};
use crate::process::start::bytes;
use crate::spec::{ErrorSpec, error, param, params};
use crate::{CallContext, Handler, Outcome, ResultSpec, ServiceSpec};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use monitor_control::host_protocol::{EndedRank, HostAnswer};
use monitor_event::{ActionReport, CallResult, Refusal};
use monitor_omis::param_type::ParamType;
use monitor_omis::{Status, Value};
use monitor_platform::action::{JobAct, JobEvent, LogStream, OutputRange};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

/// Most bytes of output in a reply, rounded up to what a rank has written at once.
const MOST: u64 = 256 << 10;
/// Longest time to wait for output, in seconds: the command ends before the service gives it up.
const LONGEST_WAIT: f64 = 5.0;
/// What `job notify --range` takes.
const RANGES: [&str; 2] = ["ranks", "global"];

const NO_JOB: ErrorSpec = error(
    Status::NO_SUCH_OBJECT,
    "a job or a rank that does not exist, or that the user of the caller may not read",
    "",
);
const NOT_THERE: ErrorSpec =
    error(Status::RANGE, "a job whose runtime has no such server on this node", "");

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "job_output",
        params: &[JOB, param("from", ParamType::Integer), param("wait", ParamType::Float)],
        results: &[
            ResultSpec::new("position", "integer"),
            ResultSpec::new("lost", "integer"),
            ResultSpec::new(
                "parts",
                "{string namespace; integer rank; string stream; string text}*",
            ),
            ResultSpec::new(
                "ended",
                "{string namespace; integer rank; integer code; integer \
                                      signal}*",
            ),
        ],
        help: "Returns what the ranks or the launcher of a job of `job_launch`, of `monitor job \
               launch -n` or `--background`, have written, as `monitor job output` prints it. \
               `job` is the text of `job_info`, or the id of a launch, followed by a colon and \
               ranks for some of them: `77:0-3,7`, where a launcher labels the lines of ranks. \
               After the end of the ranks it is their whole id. `from` is 0 at first, and then \
               the `position` of the \
               last reply: a number of bytes of the output of the whole job. Where nothing is \
               there, the reply comes when a rank has written something, at most `wait` seconds \
               later, up to 5. A reply has at most 256 KiB, rounded up to what a rank has written \
               at once. `lost` is the number of bytes after `from` that are not kept: the newest \
               16 MiB are. `parts` has what was written, in order: the namespace and rank, -1 for \
               the host or the launcher; `stdout` or `stderr`; the bytes. `ended` has the ranks \
               that have ended, \
               with the exit code, and the signal that ended them, or -1; of a launcher when all \
               of its output is kept, with -1 as rank, and those of its ranks whose end is known.",
        examples: &["process 7 state=S $PMIX_NAMESPACE=monitor-5 $PMIX_RANK=0\n\
                     > 10 [0] job_output(\"monitor-5\",0,0.0)\n\
                     < 10 [0] job_output(0,3,0,[\"monitor-5\",0,\"stdout\",\"hi\\n\"],\
                     [\"monitor-5\",0,0,-1])"],
        errors: &[NO_JOB, NOT_THERE],
        handler: Handler::Synchronous(output),
        ..super::act::BLANK
    },
    ServiceSpec {
        name: "job_query",
        params: &[JOB, param("keys", ParamType::Many(&ParamType::Text))],
        results: &[
            ResultSpec::new("values", "{string key; string value}*"),
            ResultSpec::new("missing", "{string key; string reason}*"),
        ],
        help: "Returns what the PMIx server of a job knows, as `monitor job query` prints it. Keys \
               are `namespaces`, `proc-table`, `local-proc-table`, `spawn-support`, \
               `debug-support`, `job-status`, `job-size`, `servers`, or those of PMIx such as \
               `pmix.qry.psets`. A value is JSON text. `missing` has the keys without a value; \
               then the status is PARTIAL. The server of a job of Open MPI 5 is asked by a tool \
               connection of the calling user, which the runtime lists from then on; nothing \
               connects to Open MPI 4, which would crash.",
        examples: &["process 7 state=S $PMIX_NAMESPACE=monitor-5 $PMIX_RANK=0\n\
                     > 10 [0] job_query(\"monitor-5\",[\"job-size\"])\n\
                     < 10 [0] job_query(0,[\"job-size\",\"1\"],[])"],
        errors: &[NO_JOB, NOT_THERE],
        handler: Handler::Synchronous(query),
        ..super::act::BLANK
    },
    ServiceSpec {
        name: "job_notify",
        params: &[
            JOB,
            param("event", ParamType::Text),
            param("range", ParamType::Text),
            param("text", ParamType::Text),
        ],
        help: "Raises an event of PMIx in a job, as `monitor job notify` does: the ranks that have \
               a handler for it execute it. `job` is the text of `job_info`, followed by a colon \
               and ranks for some of them. `event` is a name such as `debugger-release`, or a \
               number as text. `range` is \"ranks\", or \"global\" for all processes that the \
               server knows. `text` is for the handlers, unless it is empty.",
        examples: &["process 7 state=S $PMIX_NAMESPACE=monitor-5 $PMIX_RANK=0\n\
                     > 10 [0] job_notify(\"monitor-5\",\"debugger-release\",\"ranks\",\"\")\n\
                     < 10 [0] job_notify(0)"],
        errors: &[
            NO_JOB,
            NOT_THERE,
            error(
                Status::RANGE,
                "`range` is neither \"ranks\" nor \"global\"",
                "> 10 [0] job_notify(\"monitor-5\",\"-1\",\"node\",\"\")",
            ),
        ],
        handler: Handler::Synchronous(notify),
        ..super::act::BLANK
    },
    ServiceSpec {
        name: "job_log",
        params: &[JOB, param("text", ParamType::Text), param("stream", ParamType::Text)],
        help: "Writes a line into the output of a job of `job_launch`, as `monitor job log` does. \
               `stream` is \"stdout\" or \"stderr\".",
        examples: &["process 7 state=S $PMIX_NAMESPACE=monitor-5 $PMIX_RANK=0\n\
                     > 10 [0] job_log(\"monitor-5\",\"step 2\",\"stdout\")\n\
                     < 10 [0] job_log(0)"],
        errors: &[
            NO_JOB,
            NOT_THERE,
            error(
                Status::RANGE,
                "`stream` is neither \"stdout\" nor \"stderr\"",
                "> 10 [0] job_log(\"monitor-5\",\"a\",\"log\")",
            ),
        ],
        handler: Handler::Synchronous(log),
        ..super::act::BLANK
    },
];

fn output(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [job, from, wait] = params(args);
    let from: u64 = from.integer().ok_or_else(|| {
        Refusal::new(Status::RANGE, format!("from {from}: expected the position of a reply, or 0"))
    })?;
    let seconds = wait.float().filter(|it| (0.0..=LONGEST_WAIT).contains(it)).ok_or_else(|| {
        Refusal::new(Status::RANGE, format!("wait {wait}: expected 0 to {LONGEST_WAIT} seconds"))
    })?;
    // At most 5,000.
    let wait_ms = (seconds * 1e3) as u64;
    let range = OutputRange { job: text(job), from, most: MOST, wait_ms };
    run(ctx, JobAct::Output(range), |_, report| output_values(report))
}

/// The values of the answers of a host, each a line of JSON.
fn output_values(report: ActionReport) -> Result<CallResult, Refusal> {
    let (mut position, mut lost) = (0, 0);
    let (mut parts, mut ended) = (Vec::new(), Vec::new());
    for line in printed(report)?.stdout.split(|it| *it == b'\n').filter(|it| !it.is_empty()) {
        match serde_json::from_slice(line).map_err(malformed)? {
            HostAnswer::Position(at) => position = at,
            HostAnswer::Lost(bytes) => lost += bytes,
            HostAnswer::Output { namespace, rank, is_error, bytes } => {
                let stream = if is_error { LogStream::Error } else { LogStream::Output };
                let bytes = STANDARD.decode(bytes).map_err(malformed)?;
                parts.extend([
                    Value::from(namespace.as_str()),
                    rank.map_or(Value::from(-1), Value::from),
                    Value::from(stream.name()),
                    Value::Text(bytes.into()),
                ]);
            }
            HostAnswer::Ended(ranks) => {
                ended.extend(ranks.into_iter().flat_map(ended_values));
            }
            HostAnswer::Done | HostAnswer::Refused(_) | HostAnswer::Values(_) => {}
        }
    }
    Ok(CallResult::with(vec![
        Value::from(position),
        Value::from(lost),
        Value::List(parts),
        Value::List(ended),
    ]))
}

fn ended_values(rank: EndedRank) -> [Value; 4] {
    let [code, signal] = [rank.code, rank.signal].map(|it| Value::from(it.unwrap_or(-1)));
    let number = rank.rank.map_or(Value::from(-1), Value::from);
    [Value::from(rank.namespace.as_str()), number, code, signal]
}

/// What `job query --format json` prints.
#[derive(Deserialize)]
struct QueryAnswer {
    values: Map<String, Json>,
    missing: Map<String, Json>,
}

fn query(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [job, keys] = params(args);
    let keys: Vec<String> = keys.list().unwrap_or_default().iter().map(text).collect();
    if keys.is_empty() {
        return Err(Refusal::new(Status::RANGE, "no key: expected some, such as \"namespaces\""));
    }
    run(ctx, JobAct::Query(text(job), keys), |_, report| {
        let printed = printed(report)?;
        let QueryAnswer { values, missing } =
            serde_json::from_slice(&printed.stdout).map_err(malformed)?;
        let json = |(key, value): (String, Json)| [key.as_str().into(), value.to_string()];
        let values = values.into_iter().flat_map(|it| json(it).map(|it| Value::from(it.as_str())));
        let reason = |value: Json| value.as_str().unwrap_or_default().to_owned();
        let missing = missing.into_iter().flat_map(|(key, why)| [key, reason(why)]);
        let missing = missing.map(|it| Value::from(it.as_str()));
        let status = if printed.is_partial { Status::PARTIAL } else { Status::OK };
        let results = vec![Value::List(values.collect()), Value::List(missing.collect())];
        Ok(CallResult { status, ..CallResult::with(results) })
    })
}

fn notify(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [job, event, range, words] = params(args);
    let range = text(range);
    if !RANGES.contains(&range.as_str()) {
        let text = format!("range {range:?}: expected \"ranks\" or \"global\"");
        return Err(Refusal::new(Status::RANGE, text));
    }
    let words = Some(bytes(words)).filter(|it| !it.is_empty());
    let event = JobEvent { job: text(job), event: text(event), range, text: words };
    run(ctx, JobAct::Notify(event), acknowledged)
}

fn log(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [job, words, stream] = params(args);
    let stream = LogStream::from_name(&text(stream)).ok_or_else(|| {
        let text = format!("stream {stream}: expected \"stdout\" or \"stderr\"");
        Refusal::new(Status::RANGE, text)
    })?;
    run(ctx, JobAct::Log(text(job), bytes(words), stream), acknowledged)
}

fn acknowledged(_: &mut CallContext<'_>, report: ActionReport) -> Result<CallResult, Refusal> {
    printed(report).map(|_| CallResult::ok())
}
