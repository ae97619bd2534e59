//! `print`: the reply of an action to its tool (OMIS 1.0, section 8.2.3).

use super::{CallContext, ExecutionLevel, Handler, Outcome, ResultSpec, ServiceSpec, spec::param};
use monitor_event::{CallResult, Refusal};
use monitor_omis::{Value, param_type::ParamType};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "print",
    params: &[param("args", ParamType::Many(&ParamType::Any))],
    results: &[ResultSpec::new("args", "any*")],
    level: ExecutionLevel::Kernel,
    help: "Returns its arguments. As an action it notifies the tool of the event.",
    examples: &["> 10 [0] print(1,2.5,\"x\")\n< 10 [0] print(0,[1,2.5,\"x\"])"],
    handler: Handler::Synchronous(print),
    ..ServiceSpec::BASE
}];

fn print(_: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    Ok(CallResult::with(args.to_vec()).into())
}
