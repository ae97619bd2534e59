//! `print`: the reply of an action to its tool (OMIS 1.0, section 8.2.3).

use super::context::CallContext;
use super::context::Outcome;
use super::spec::{ExecutionLevel, Handler, ResultSpec, ServiceSpec};
use monitor_event::outcome::CallResult;
use monitor_omis::Value;
use monitor_omis::param_type::{Param, ParamType};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[ServiceSpec {
    name: "print",
    params: &[Param { name: "args", param_type: ParamType::Many(&ParamType::Any) }],
    results: &[ResultSpec { name: "args", kind: "any*" }],
    level: ExecutionLevel::Kernel,
    help: "Returns its arguments. As an action it notifies the tool of the event.",
    examples: &["> 10 [0] print(1,2.5,\"x\")\n< 10 [0] print(0,[1,2.5,\"x\"])"],
    handler: Handler::Synchronous(print),
    ..ServiceSpec::BASE
}];

fn print(_: &mut CallContext<'_>, args: &[Value]) -> Outcome {
    CallResult::with(args.to_vec()).into()
}
