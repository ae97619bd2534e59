//! Services about the services themselves: what a tool makes of others, and who else brings some.

use super::ctx::Ctx;
use super::outcome::Outcome;
use super::row::{Act, Given, Row};
use monitor_event::outcome::{Done, Refusal};
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Dialect, Status, Text, Value};

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "define_service",
        takes: &[
            Param { name: "name", kind: Kind::Text },
            Param { name: "params", kind: Kind::Many(&Kind::Text) },
            Param { name: "body", kind: Kind::Text },
        ],
        help: "Makes a service of the tool's own out of others. Its body sees the parameters by \
               their names; see docs/REQUESTS.md. A definition of the same name is replaced.",
        examples: &["> 10 [0] define_service(\"twice\",[\"it\"],\"print($it); print($it)\")\n\
                     < 10 [0] define_service(0)\n> 11 [0] twice(5)\n\
                     < 11 [0] print(0,[5]); 11 [0] print(0,[5])"],
        act: Act::Manipulation(define_service),
        ..Row::BLANK
    },
    Row {
        name: "dialect",
        takes: &[Param { name: "name", kind: Kind::Text }],
        help: "From the next line on the session speaks `\"extended\"`, as it does at first, or \
               `\"strict\"`: OMIS 1.0 to the letter. Nothing leads back from there but a new \
               session, since OMIS 1.0 does not have this service.",
        examples: &["> 10 [0] dialect(\"strict\")\n< 10 [0] dialect(0)\n\
                     > 11 [0] enable(9)\n< 11 [0] enable(306)"],
        act: Act::Manipulation(dialect),
        ..Row::BLANK
    },
    Row {
        name: "extensions",
        gives: &[Given { name: "extension", kind: "string*" }],
        help: "Lists the prefixes of the extensions that are there.",
        examples: &["> 10 [0] extensions()\n\
                     < 10 [0] extensions(0,[\"cnt_\",\"diag_\",\"mon_\",\"pio_\"])"],
        act: Act::Synchronous(extensions),
        ..Row::BLANK
    },
];

fn extensions(ctx: &mut Ctx<'_>, _: &[Value]) -> Outcome {
    let prefixes = ctx.desk.prefixes().iter().map(|prefix| Value::from(prefix.as_str())).collect();
    Done::with(vec![Value::List(prefixes)]).into()
}

fn define_service(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    ctx.desk.define_service(args).map(|()| Done::ok()).into()
}

fn dialect(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    let name = args.first().and_then(Value::text).map(Text::to_str_lossy);
    match name.as_deref() {
        Some("strict") => ctx.session.dialect = Dialect::Strict,
        Some("extended") if ctx.session.dialect == Dialect::Extended => {}
        _ => {
            let text = "wanted \"strict\" or \"extended\", and strict once is strict for ever";
            return Done::from(Refusal::new(Status::RANGE, text)).into();
        }
    }
    Done::ok().into()
}
