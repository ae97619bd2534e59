//! `process_signal`: signals delivered to processes.

use super::process_filter;
use crate::process::stop::SIGNALS;
use crate::spec::{error, number, param, params};
use crate::{CallContext, Handler, ResultSpec, ServiceSpec};
use monitor_event::{EventFilter, EventKind, Predicate, Refusal, Right};
use monitor_omis::{Status, Value, param_type::ParamType};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "process_signal",
    params: &[
        param("tid_list", ParamType::Many(&ParamType::Process)),
        param("sig_list", ParamType::Many(&ParamType::Integer)),
    ],
    results: &[ResultSpec::new("tid", "integer"), ResultSpec::new("sig", "integer")],
    right: Right::ObserveInFull,
    help: "Occurs when one of the signals is delivered to one of the processes; an empty list of \
           signals matches all. Ignored and blocked signals are not delivered. The signal that \
           ends a process is delivered to one of its threads.",
    examples: &["process 7\nattach 7\n> 10 [0] process_signal([7],[10]): 11 [0] print([$1,$2])\n\
                 < 10 [0] process_signal(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                 at 1ms signal 7 12\nat 2ms signal 7 10\n< 11 [0] print(0,[7,10])"],
    errors: &[error(
        Status::RANGE,
        "a number that is no signal, 1 to 64",
        "process 7\nattach 7\n> 10 [0] process_signal([7],[65]): 11 [0] print(1)",
    )],
    handler: Handler::Event(process_signal),
    ..ServiceSpec::BASE
}];

fn process_signal(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let [list, signals] = params(args);
    let wanted = signals.list().unwrap_or_default().to_vec();
    for signal in &wanted {
        let _valid = number(signal, "signal", SIGNALS)?;
    }
    let check = (!wanted.is_empty()).then_some(Predicate::OneOf(1, wanted));
    process_filter(ctx, list, EventKind::Signalled, check)
}
