//! Services about the services themselves: what a tool makes of others, and who else brings some.

use super::ctx::Ctx;
use super::outcome::{Done, Outcome};
use super::row::{Act, Given, Row};
use crate::omis::Value;
use crate::omis::kind::{Kind, Param};

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
        name: "extensions",
        gives: &[Given { name: "extension", kind: "string*" }],
        help: "Lists the prefixes of the extensions that are there.",
        examples: &["> 10 [0] extensions()\n< 10 [0] extensions(0,[])"],
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
