//! `cnt_create`, `cnt_delete`, `cnt_reset`, `cnt_list`: the instruments that exist.

use super::{BLANK, NAME, NAMES, in_kernel, instrument::InstrumentKind as Sort, named};
use crate::{CallContext, ExecutionLevel, Handler, Outcome, ResultSpec, ServiceSpec, spec::param};
use monitor_event::{CallResult, Refusal};
use monitor_omis::{Text, Value, param_type::ParamType};

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "cnt_create",
        params: &[NAME, param("kind", ParamType::Text), param("unit", ParamType::Text)],
        level: ExecutionLevel::Anywhere,
        help: "Creates an instrument on the addressed nodes. Its name is a string or an integer; \
               strings that begin with `/`, and integers from 2^30 on, are shared by all tools \
               and stay until they are deleted, others go with the session. The kinds are \
               `counter`, `integrator` (a level and its integral over time), `histogram`, \
               `timer` (one running time for each name), `process_timer` and `thread_timer`, \
               whose times are in nanoseconds, and `trace`.",
        examples: &[
            "> 10 [0] cnt_create(\"sent\",\"counter\",\"bytes\")\n< 10 [0] cnt_create(0)\n\
             > 11 [0] cnt_create(\"sent\",\"counter\",\"\")\n\
             < 11 [0] cnt_create(305,0,\"instrument \\\"sent\\\" exists: delete it first\")",
            "> 10 [0] cnt_create(\"/sent\",\"counter\",\"\")\n< 10 [0] cnt_create(0)\n\
             tool b 0\n> 11 [0] cnt_add(\"/sent\",5)\n< 11 [0] cnt_add(0)\ntool a\n\
             > 12 [0] cnt_read(\"/sent\",8)\n< 12 [0] cnt_read(0,[\"/sent\",5])",
        ],
        handler: Handler::Manipulation(create),
        ..BLANK
    },
    ServiceSpec {
        name: "cnt_delete",
        params: &[NAMES],
        level: ExecutionLevel::Anywhere,
        help: "Deletes instruments.",
        examples: &["> 10 [0] cnt_create(7,\"counter\",\"\"); 11 [0] cnt_delete(7)\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_delete(0)\n\
                     > 12 [0] cnt_delete(7)\n< 12 [0] cnt_delete(300,0,\"no instrument 7: \
                     create it with cnt_create\")"],
        handler: Handler::Manipulation(delete),
        ..BLANK
    },
    ServiceSpec {
        name: "cnt_reset",
        params: &[NAMES],
        level: ExecutionLevel::Anywhere,
        help: "Resets instruments. An integrator keeps its level, and running timers keep \
               running.",
        examples: &["> 10 [0] cnt_create(7,\"counter\",\"\"); 11 [0] cnt_add(7,3)\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_add(0)\n\
                     > 12 [0] cnt_reset(7); 13 [0] cnt_read(7,12)\n\
                     < 12 [0] cnt_reset(0); 13 [0] cnt_read(0,[7,0,0])"],
        handler: Handler::Manipulation(reset),
        ..BLANK
    },
    ServiceSpec {
        name: "cnt_list",
        results: &[ResultSpec::new("instruments", "{any name; string kind; string unit}*")],
        level: ExecutionLevel::Anywhere,
        help: "Lists the instruments that the tool can use: its own, then the shared ones.",
        examples: &["> 10 [0] cnt_create(\"q\",\"integrator\",\"jobs\"); 11 [0] cnt_list()\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_list(0,[\"q\",\"integrator\",\"jobs\"])"],
        handler: Handler::Synchronous(list),
        ..BLANK
    },
];

fn create(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [name, Value::Text(kind), Value::Text(unit)] = args else {
        unreachable!("the specification has a name and two strings")
    };
    let (session, now) = (ctx.session.tool.session, ctx.now);
    let kind = Sort::named(&kind.to_str_lossy());
    let unit = |kind| match kind {
        Sort::Timer(_) => Text::from("ns"),
        _ => unit.clone(),
    };
    let made =
        kind.and_then(|it| ctx.engine.instruments_mut().create(session, name, (it, unit(it)), now));
    made.map(|()| CallResult::ok().into())
}

fn delete(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let session = ctx.session.tool.session;
    for_each_named(ctx, args, |ctx, name| {
        let gone = ctx.engine.instruments_mut().delete(session, name)?;
        ctx.platform.free_counters(gone.number);
        Ok(())
    })
}

fn reset(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let now = ctx.now;
    for_each_named(ctx, args, |ctx, name| {
        let number = named(ctx, name)?.number;
        let level = in_kernel::kernel_gauge(number, ctx.platform).map(|it| it.value);
        named(ctx, name)?.reset(level, now);
        ctx.platform.reset_counters(number);
        Ok(())
    })
}

/// Applies a function to each named instrument.
fn for_each_named(
    ctx: &mut CallContext<'_>,
    args: &[Value],
    act: impl Fn(&mut CallContext<'_>, &Value) -> Result<(), Refusal>,
) -> Result<Outcome, Refusal> {
    let names = args.first().and_then(Value::list).unwrap_or_default();
    let mut failed = Vec::new();
    for name in names {
        failed.extend(act(ctx, name).err().map(|why| (name.clone(), why)));
    }
    Ok(ctx.list_result(&failed, names.len() - failed.len()).into())
}

fn list(ctx: &mut CallContext<'_>, _: &[Value]) -> Result<Outcome, Refusal> {
    let (registry, session) = (ctx.engine.instruments(), ctx.session.tool.session);
    let mut all = Vec::new();
    for name in registry.names(session) {
        if let Ok(it) = registry.find(session, &name) {
            all.extend([name, Value::from(it.kind().name()), Value::Text(it.unit.clone())]);
        }
    }
    Ok(CallResult::with(vec![Value::List(all)]).into())
}
