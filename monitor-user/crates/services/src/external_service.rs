//! External services: another process registers a prefix and executes the calls of its services.
//!
//! In: registrations and replies of the provider. Out: entries of the registry and results of
//! calls. `requests/run.rs` forwards the calls; docs/EXTENSIONS.md says how to write a
//! provider, and why this replaces a linked library.

use super::spec::{error, param, params};
use super::{CallContext, Handler, Outcome, ResultSpec, ServiceSpec, engine_api::ExternalService};
use monitor_event::{CallResult, Refusal};
use monitor_omis::{Name, Status, Value, param_type::ParamType};

/// The specification of every external service: its provider checks the parameters.
pub const EXTERNAL_SERVICE: ServiceSpec = ServiceSpec {
    name: "extension_called",
    params: &[param("args", ParamType::Many(&ParamType::Any))],
    results: &[ResultSpec::ANY],
    handler: Handler::Synchronous(|_, _| {
        Err(Refusal::new(Status::INTERNAL, "the call was not forwarded to its provider"))
    }),
    ..ServiceSpec::BASE
};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "extension_register",
        params: &[
            param("prefix", ParamType::Text),
            param("services", ParamType::Some(&ParamType::Text)),
        ],
        help: "Registers external services, which the tool executes itself: for each its name, \
               which begins with the prefix, its parameters, and its description, as three \
               strings. A call of one of them occurs at the tool as `extension_called`: a \
               number, the name, the calling user, and the parameters; the tool replies with \
               `extension_reply`. Root's tools and tools of the same user can call them, all \
               tools if root registers them; they go with the connection. See \
               docs/EXTENSIONS.md.",
        examples: &["> 1 [0] extension_register(\"demo_\",[\"demo_add\",\"integer a, integer b\",\
                     \"Adds.\"])\n< 1 [0] extension_register(0)\n\
                     tool b 0\n> 10 [0] demo_add(2,3)\ntool a\n\
                     < 0 [0] extension_called(0,4,\"demo_add\",0,[2,3])\n\
                     > 2 [0] extension_reply(4,0,[5])\n< 2 [0] extension_reply(0)\n\
                     tool b\n< 10 [0] demo_add(0,5)"],
        errors: &[
            error(
                Status::EXISTS,
                "the prefix overlaps with that of other services",
                "> 10 [0] extension_register(\"cnt_\",[\"cnt_a\",\"\",\"A.\"])",
            ),
            error(
                Status::RANGE,
                "a prefix or a service that is not named so",
                "> 10 [0] extension_register(\"demo\",[\"demo\",\"\",\"A.\"])",
            ),
        ],
        handler: Handler::Manipulation(register),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "extension_reply",
        params: &[
            param("call", ParamType::Integer),
            param("status", ParamType::Integer),
            param("results", ParamType::Many(&ParamType::Any)),
        ],
        help: "Replies to `extension_called`: its number, a status and the results. The caller \
               gets the reply, or a timeout after ten seconds.",
        examples: &["> 1 [0] extension_reply(7,0,[])\n\
                     < 1 [0] extension_reply(300,0,\"no external call 7 is pending\")"],
        errors: &[error(
            Status::NO_SUCH_OBJECT,
            "no such call is pending",
            "> 10 [0] extension_reply(7,0,[])",
        )],
        handler: Handler::Manipulation(reply),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "extension_services",
        results: &[ResultSpec::new("services", "{string name; string takes; string help}*")],
        help: "Lists the external services that the tool can call at the moment.",
        examples: &["> 1 [0] extension_services()\n< 1 [0] extension_services(0,[])"],
        handler: Handler::Synchronous(services),
        ..ServiceSpec::BASE
    },
];

fn register(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let text = |value: &Value| value.text().map(|it| it.to_str_lossy().into_owned());
    let prefix = text(&args[0]).unwrap_or_default();
    let words: Vec<String> = args[1].list().unwrap_or_default().iter().filter_map(text).collect();
    let wrong = |text: String| Refusal::new(Status::RANGE, text);
    if !prefix.ends_with('_') || prefix.len() < 2 || Name::new(&prefix).is_none() {
        return Err(wrong(format!(
            "prefix {prefix:?}: expected a name that ends with _, such as \"demo_\""
        )));
    }
    let (triples, []) = words.as_chunks::<3>() else {
        return Err(wrong("services: expected name, parameters and help of each".to_owned()));
    };
    let brought = triples.iter().map(|[name, takes, help]| {
        let (name, takes, help) = (name.clone(), takes.clone(), help.clone());
        ExternalService { name, takes, help }
    });
    let brought: Vec<ExternalService> = brought.collect();
    let is_own =
        |it: &&ExternalService| it.name.starts_with(&prefix) && Name::new(&it.name).is_some();
    if let Some(it) = brought.iter().find(|it| !is_own(it)) {
        return Err(wrong(format!("service {:?} does not begin with {prefix}", it.name)));
    }
    let tool = ctx.session.tool;
    ctx.engine
        .register_services((tool.session, tool.uid), prefix, brought)
        .map(|()| CallResult::ok().into())
}

fn reply(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [call, status, results] = params(args);
    let wrong = |text| Refusal::new(Status::RANGE, text);
    let call =
        call.integer().ok_or_else(|| wrong("call: expected the number of extension_called"))?;
    let status = status.integer().ok_or_else(|| wrong("status: expected a 32-bit integer"))?;
    let results = results.list().unwrap_or_default().to_vec();
    let done = CallResult { status: Status(status), results, reason: None };
    ctx.engine.reply_external(call, done).map(|()| CallResult::ok().into())
}

fn services(ctx: &mut CallContext<'_>, _: &[Value]) -> Result<Outcome, Refusal> {
    let texts =
        |it: &ExternalService| [&it.name, &it.takes, &it.help].map(|text| Value::from(&**text));
    let all = ctx.engine.external_services(ctx.session.tool.uid).iter().flat_map(texts).collect();
    Ok(CallResult::with(vec![Value::List(all)]).into())
}
