//! Services about services: definitions of a tool, the dialect, and the list of extensions.

use super::{
    CallContext, Handler, Outcome, ResultSpec, ServiceSpec,
    spec::{error, param},
};
use monitor_event::{CallResult, Refusal};
use monitor_omis::{Dialect, Status, Text, Value, param_type::ParamType};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "define_service",
        params: &[
            param("name", ParamType::Text),
            param("params", ParamType::Many(&ParamType::Text)),
            param("body", ParamType::Text),
        ],
        help: "Defines a service of the tool's own in terms of other services. Its body uses the \
               parameters by their names; see docs/REQUESTS.md. A definition of the same name by \
               this tool is replaced; other tools have definitions of their own. Names of \
               services, and of the prefixes of extensions, cannot be defined.",
        examples: &["> 10 [0] define_service(\"twice\",[\"it\"],\"print($it); print($it)\")\n\
                     < 10 [0] define_service(0)\n> 11 [0] twice(5)\n\
                     < 11 [0] print(0,[5]); 11 [0] print(0,[5])"],
        errors: &[
            error(
                Status::EXISTS,
                "the name is that of a service, or has the prefix of an extension",
                "> 10 [0] define_service(\"stop\",[\"p\"],\"continue($p)\")",
            ),
            error(
                Status::LEX,
                "the name or a parameter is not a name",
                "> 10 [0] define_service(\"a b\",[],\"stop([])\")",
            ),
            error(
                Status::UNBOUND_VAR,
                "the body uses a variable that is neither a parameter nor of every event",
                "> 10 [0] define_service(\"a\",[],\"stop($p)\")",
            ),
            error(
                Status::CLASS,
                "the service would call itself",
                "> 10 [0] define_service(\"a\",[],\"a()\")",
            ),
        ],
        handler: Handler::Manipulation(define_service),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "dialect",
        params: &[param("name", ParamType::Text)],
        help: "Sets the dialect of the session from the next line on: `\"extended\"`, the \
               default, or `\"strict\"`, OMIS 1.0 to the letter. A strict session stays strict \
               until it ends, since OMIS 1.0 does not have this service.",
        examples: &["> 10 [0] dialect(\"strict\")\n< 10 [0] dialect(0)\n\
                     > 11 [0] enable(9)\n< 11 [0] enable(306)"],
        errors: &[error(
            Status::RANGE,
            "another name; or a strict session, which stays strict",
            "> 10 [0] dialect(\"loose\")",
        )],
        handler: Handler::Manipulation(dialect),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "extensions",
        results: &[ResultSpec::new("extension", "string*")],
        help: "Lists the prefixes of the available extensions.",
        examples: &["> 10 [0] extensions()\n\
                     < 10 [0] extensions(0,[\"cnt_\",\"diag_\",\
                     \"environment_\",\"job_\",\"mon_\",\"pio_\"])"],
        handler: Handler::Synchronous(extensions),
        ..ServiceSpec::BASE
    },
];

fn extensions(ctx: &mut CallContext<'_>, _: &[Value]) -> Result<Outcome, Refusal> {
    let prefixes =
        ctx.engine.prefixes().iter().map(|prefix| Value::from(prefix.as_str())).collect();
    Ok(CallResult::with(vec![Value::List(prefixes)]).into())
}

fn define_service(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    ctx.engine.define_service(args).map(|()| CallResult::ok().into())
}

fn dialect(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let name = args.first().and_then(Value::text).map(Text::to_str_lossy);
    match name.as_deref() {
        Some("strict") => ctx.session.dialect = Dialect::Strict,
        Some("extended") if ctx.session.dialect == Dialect::Extended => {}
        _ => {
            let text =
                "dialect: expected \"strict\" or \"extended\"; a strict session stays strict";
            return Err(Refusal::new(Status::RANGE, text));
        }
    }
    Ok(CallResult::ok().into())
}
