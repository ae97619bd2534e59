//! `process_info`: identity, state and usage of processes.

use crate::spec::{error, param, params};
use crate::{
    CallContext, ExecutionLevel, FlagSpec, Handler, Outcome, ResultSpec, ServiceSpec, spec,
};
use monitor_event::{Refusal, Right};
use monitor_model::{Process, field::ProcessField as F};
use monitor_omis::{Status, Text, Value, param_type::ParamType};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "process_info",
    params: &[
        param("tid_list", ParamType::Many(&ParamType::Process)),
        param("flags", ParamType::Integer),
    ],
    results: &[
        ResultSpec::new("number_of_processes", "integer"),
        ResultSpec::new("processes", "{integer tid; any...}*"),
    ],
    flags: FLAGS,
    right: Right::Observe,
    level: ExecutionLevel::Snapshot,
    help: "Returns for each process its number and the values that `flags` selects, in the order \
           of its bits. An empty list means all attached processes.",
    examples: &["process 7 comm=a rss_bytes=1M nice=5\nattach 7\n> 10 [0] process_info([7],24)\n\
                 < 10 [0] process_info(0,1,[7,1048576,5])"],
    errors: &[error(
        Status::RANGE,
        "a bit of `flags` that it does not have",
        "process 7\nattach 7\n> 10 [0] process_info([7],128)",
    )],
    handler: Handler::Synchronous(process_info),
    ..ServiceSpec::BASE
}];

const FLAGS: &[FlagSpec] = &[
    FlagSpec::new(0, "pid", "integer", "process id on its node"),
    FlagSpec::new(1, "argv", "string*", "path and arguments"),
    FlagSpec::new(2, "scheduling_state", "integer", STATES),
    FlagSpec::new(3, "memory_size", "integer", "resident memory, in bytes"),
    FlagSpec::new(4, "priority", "integer", "nice value"),
    FlagSpec::new(5, "user_time", "floating", "time in user mode, in seconds"),
    FlagSpec::new(6, "system_time", "floating", "time in the kernel, in seconds"),
];
const STATES: &str = "0 unknown, 1 running, 2 runnable, 3 sleeping, 4 waiting for a device, \
5 stopped by the monitor, 6 stopped otherwise, 7 traced, 8 zombie";

fn process_info(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [list, flags] = params(args);
    let flags = spec::flags(Some(flags), FLAGS)?;
    let chosen = ctx.processes(list)?;
    let mut out = Vec::new();
    let n_served = u64::try_from(chosen.served.len()).unwrap_or(u64::MAX);
    for it in &chosen.served {
        out.push(ctx.number(it.id));
        let wanted = FLAGS.iter().filter(|flag| flags >> flag.bit & 1 == 1);
        out.extend(wanted.map(|flag| selected(ctx, it, flag.bit)));
    }
    let values = [Value::from(n_served), Value::List(out)];
    Ok(ctx.list_values(values, (&chosen.failed, chosen.served.len())).into())
}

/// The value that a bit selects; -1 for an unknown number.
fn selected(ctx: &mut CallContext<'_>, it: &Process, bit: u8) -> Value {
    let number = |field| it.row.get(field).map_or(Value::from(-1), Value::from);
    let seconds = |field| it.row.get(field).map_or(-1.0, |ns| monitor_model::id::Ns(ns).seconds());
    match bit {
        0 => Value::from(it.id.pid.0),
        1 => {
            let arguments = ctx.platform.arguments(it.id).unwrap_or_default();
            Value::List(arguments.into_iter().map(|it| Value::Text(Text::from(it))).collect())
        }
        2 => {
            let is_ours = ctx.platform.has_stopped(it.id);
            Value::from(state(it, is_ours))
        }
        3 => number(F::Rss),
        4 => it.row.get(F::Nice).map_or(Value::from(0), |nice| nice.cast_signed().into()),
        5 => Value::from(seconds(F::UserTime)),
        _ => Value::from(seconds(F::SystemTime)),
    }
}

/// The state as a number. The kernel has one letter for running and runnable, and does not report
/// frozen processes.
fn state(it: &Process, is_stopped_by_us: bool) -> u8 {
    let letter = it.row.get(F::State).and_then(|code| u8::try_from(code).ok()).unwrap_or(b'?');
    match letter {
        b'Z' | b'X' => 8,
        _ if is_stopped_by_us => 5,
        b'R' => 1,
        b'S' | b'I' => 3,
        b'D' => 4,
        b'T' => 6,
        b't' => 7,
        _ => 0,
    }
}
