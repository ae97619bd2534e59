//! `job_launch`.
//!
//! In: a program and a number of ranks, or the command line of a launcher. Out: a parallel job,
//! which the user worker of the tool starts as its user, and which outlives the tool.

use super::command::{malformed, printed, run, text};
use crate::process::start::{attach_started, bytes, launch_spec};
use crate::spec::{error, param, params};
use crate::{CallContext, Handler, Outcome, ResultSpec, ServiceSpec};
use monitor_control::user_worker::SELF_EXE;
use monitor_event::{CallResult, Refusal};
use monitor_jobs::launch_method::LaunchMethod;
use monitor_omis::param_type::ParamType;
use monitor_omis::{Status, Value};
use monitor_platform::ProcessAction;
use monitor_platform::action::{JobAct, LauncherOutput, RankLaunch};
use serde::Deserialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Where ranks are held, as `job launch --stop` has it; "" for nowhere.
const STOPS: [&str; 4] = ["", "exec", "init", "app"];
/// Most ranks of a job without a launcher.
const MAX_RANKS: u32 = 4096;

/// The service.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "job_launch",
    params: &[
        param("with", ParamType::Text),
        param("ranks", ParamType::Integer),
        param("stop", ParamType::Text),
        param("directives", ParamType::Many(&ParamType::Text)),
        param("words", ParamType::Some(&ParamType::Text)),
    ],
    results: &[ResultSpec::new("job", "string"), ResultSpec::new("pid", "integer")],
    help: "Starts a parallel job as the calling user, as `monitor job launch` does. `ranks` is \
           the number of ranks of a program, which `words` has with its arguments: this program \
           is then their PMIx host (`with` is \"native\" or \"auto\"), or a PMIx server that \
           runs, such as `prte`, starts them (\"pmix\"). If `ranks` is 0, `words` is the command \
           line of a launcher on this node (\"mpirun\", \"srun\"), or of a script that starts \
           one (\"auto\"). `stop` says where all ranks are held: \"exec\", before their first \
           instruction, \"init\", where they call MPI_Init, \"app\", where their program waits \
           for a debugger by PMIx, or \"\". `directives` change the environment, in this order: \
           \"set:NAME=VALUE\", and the others of `monitor job env`. Folder and environment are \
           those of `start_options`; without them, the folder is `/`, and the environment has \
           `PATH`. The job outlives the tool. `job` is the id for `job_output`, which returns \
           what is written: without a launcher that of the job, and `pid` is the host; the reply \
           comes when the ranks run, or are held at \"exec\". With a launcher it is the id of the \
           launch, and `pid` is the launcher, or, if ranks are held, the command that starts it. \
           With a launcher, and at \"init\", ranks are held after the reply: `job_changed` occurs \
           when they are there, and when they are held: \"stopped\". `job_signal` with SIGCONT, \
           18, continues them. Ranks run on if not all call MPI_Init within a minute. If \
           `start_options` has files for streams, a launcher writes to them: then `job` is \"\", \
           `pid` is the process of the command, which is attached, and nothing is kept.",
    examples: &[
        "> 10 [0] job_launch(\"native\",2,\"\",[\"set:A=b\"],[\"./ring\",\"-x\"])\n\
         < 10 [0] job_launch(0,\"monitor-101\",101)",
        "> 10 [0] job_launch(\"mpirun\",0,\"init\",[],[\"mpirun\",\"-n\",\"4\",\"./ring\"])\n\
         < 10 [0] job_launch(0,\"launch-101\",103)",
    ],
    errors: &[
        error(
            Status::RANGE,
            "an unknown `with` or `stop`, a number of ranks that does not fit `with`, a directive \
             or a program that the command refuses",
            "> 10 [0] job_launch(\"native\",0,\"\",[],[\"./ring\"])",
        ),
        error(Status::IO, "the program cannot be executed, or PMIx is not installed", ""),
    ],
    handler: Handler::Synchronous(launch),
    ..super::act::BLANK
}];

/// What `job launch --background --format json` prints.
#[derive(Deserialize)]
struct LaunchAnswer {
    job: String,
    host_pid: u32,
    launcher_pid: Option<u32>,
}

fn launch(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let mut launch = checked(args)?;
    if ctx.session.start_options.streams.iter().any(Option::is_some) {
        launch.output = LauncherOutput::Streams;
    }
    if launch.is_in_background() {
        return run(ctx, JobAct::Launch(launch), |_, report| {
            let printed = printed(report)?;
            let answer: LaunchAnswer =
                serde_json::from_slice(&printed.stdout).map_err(malformed)?;
            let pid = answer.launcher_pid.unwrap_or(answer.host_pid);
            Ok(CallResult::with(vec![Value::from(answer.job.as_str()), Value::from(pid)]))
        });
    }
    ctx.session.tool.may_start()?;
    let program = launch_spec(ctx, SELF_EXE.as_ref(), launch.words());
    ctx.act_on_none(&ProcessAction::Start(program), |ctx, report| {
        let started = report.by_process.first().map(|(id, _)| *id).unwrap_or_default();
        attach_started(ctx, report)?;
        Ok(CallResult::with(vec![Value::from(""), Value::from(started.pid.0)]))
    })
}

/// What is to be started, if the parameters fit each other.
fn checked(args: &[Value]) -> Result<RankLaunch, Refusal> {
    let [with, ranks, stop, directives, words] = params(args);
    let refused = |text: String| Err(Refusal::new(Status::RANGE, text));
    let [method, place] = [with, stop].map(text);
    if !STOPS.contains(&place.as_str()) {
        return refused(format!("stop {stop}: expected exec, init, app or \"\""));
    }
    let number: Option<u32> = ranks.integer();
    let count = match number.filter(|it| *it <= MAX_RANKS) {
        Some(0) => None,
        Some(number) => Some(number),
        None => return refused(format!("ranks {ranks}: expected 0 to {MAX_RANKS}")),
    };
    let all = |it: &Value| it.list().unwrap_or_default().iter().map(bytes).collect();
    let words: Vec<Vec<u8>> = all(words);
    let program = OsStr::from_bytes(words.first().map_or(&[], Vec::as_slice));
    if let Err(why) = LaunchMethod::choose(&method, count, program) {
        return refused(why.to_string());
    }
    if count.is_none() && place == "app" {
        return refused("stop \"app\": it needs a number of ranks".to_owned());
    }
    Ok(RankLaunch {
        ranks: count,
        with: method,
        output: LauncherOutput::Kept,
        stop: Some(place).filter(|it| !it.is_empty()),
        directives: all(directives),
        words,
    })
}
