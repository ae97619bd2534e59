//! `cnt_create`, `cnt_delete`, `cnt_reset`, `cnt_list`.

use super::instrument::Kind as Sort;
use super::{BLANK, NAME, NAMES, kernel, named};
use crate::ctx::Ctx;
use crate::outcome::Outcome;
use crate::row::{Act, Given, Level, Row};
use monitor_event::outcome::{Done, Refusal};
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Text, Value};

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "cnt_create",
        takes: &[
            NAME,
            Param { name: "kind", kind: Kind::Text },
            Param { name: "unit", kind: Kind::Text },
        ],
        level: Level::Anywhere,
        help: "Makes an instrument on the nodes that are asked. Its name is a string or an \
               integer; strings that begin with `/`, and integers from 2^30 on, are shared by all \
               tools and stay until they are deleted, others go with the session. The kinds are \
               `counter`, `integrator` (a level, and the area below it), `histogram`, `timer` \
               (one beginning at a time for each that is named), `process_timer` and \
               `thread_timer`, whose times are in nanoseconds, and `trace`.",
        examples: &[
            "> 10 [0] cnt_create(\"sent\",\"counter\",\"bytes\")\n< 10 [0] cnt_create(0)\n\
             > 11 [0] cnt_create(\"sent\",\"counter\",\"\")\n\
             < 11 [0] cnt_create(305,0,\"there is an instrument \\\"sent\\\": delete it\")",
            "> 10 [0] cnt_create(\"/sent\",\"counter\",\"\")\n< 10 [0] cnt_create(0)\n\
             tool b 0\n> 11 [0] cnt_add(\"/sent\",5)\n< 11 [0] cnt_add(0)\ntool a\n\
             > 12 [0] cnt_read(\"/sent\",8)\n< 12 [0] cnt_read(0,[\"/sent\",5])",
        ],
        act: Act::Manipulation(create),
        ..BLANK
    },
    Row {
        name: "cnt_delete",
        takes: &[NAMES],
        level: Level::Anywhere,
        help: "Takes instruments away.",
        examples: &["> 10 [0] cnt_create(7,\"counter\",\"\"); 11 [0] cnt_delete(7)\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_delete(0)\n\
                     > 12 [0] cnt_delete(7)\n< 12 [0] cnt_delete(300,0,\"no instrument 7 is there: \
                     cnt_create it first\")"],
        act: Act::Manipulation(delete),
        ..BLANK
    },
    Row {
        name: "cnt_reset",
        takes: &[NAMES],
        level: Level::Anywhere,
        help: "Lets instruments show nothing again. An integrator keeps its level, and what a \
               timer measures at the moment goes on.",
        examples: &["> 10 [0] cnt_create(7,\"counter\",\"\"); 11 [0] cnt_add(7,3)\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_add(0)\n\
                     > 12 [0] cnt_reset(7); 13 [0] cnt_read(7,12)\n\
                     < 12 [0] cnt_reset(0); 13 [0] cnt_read(0,[7,0,0])"],
        act: Act::Manipulation(reset),
        ..BLANK
    },
    Row {
        name: "cnt_list",
        gives: &[Given { name: "instruments", kind: "{any name; string kind; string unit}*" }],
        level: Level::Anywhere,
        help: "Lists the instruments that the tool can use: its own, then those that are shared.",
        examples: &["> 10 [0] cnt_create(\"q\",\"integrator\",\"jobs\"); 11 [0] cnt_list()\n\
                     < 10 [0] cnt_create(0); 11 [0] cnt_list(0,[\"q\",\"integrator\",\"jobs\"])"],
        act: Act::Synchronous(list),
        ..BLANK
    },
];

fn create(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    let [name, Value::Text(kind), Value::Text(unit)] = args else {
        unreachable!("the row takes a name and two strings")
    };
    let (session, now) = (ctx.session.tool.session, ctx.now);
    let kind = Sort::named(&kind.to_str_lossy());
    let unit = |kind| match kind {
        Sort::Timer(_) => Text::from("ns"),
        _ => unit.clone(),
    };
    let made = kind.and_then(|it| ctx.desk.shelf_mut().create(session, name, (it, unit(it)), now));
    made.map(|()| Done::ok()).into()
}

fn delete(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    let session = ctx.session.tool.session;
    each(ctx, args, |ctx, name| {
        let gone = ctx.desk.shelf_mut().delete(session, name)?;
        ctx.ground.free_meters(gone.number);
        Ok(())
    })
}

fn reset(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    let now = ctx.now;
    each(ctx, args, |ctx, name| {
        let number = named(ctx, name)?.number;
        let level = kernel::level(number, ctx.ground).map(|it| it.level);
        named(ctx, name)?.reset(level, now);
        ctx.ground.forget_meters(number);
        Ok(())
    })
}

/// Does something to each that is named.
fn each(
    ctx: &mut Ctx<'_>,
    args: &[Value],
    act: impl Fn(&mut Ctx<'_>, &Value) -> Result<(), Refusal>,
) -> Outcome {
    let names = args.first().and_then(Value::list).unwrap_or_default();
    let mut failed = Vec::new();
    for name in names {
        failed.extend(act(ctx, name).err().map(|why| (name.clone(), why)));
    }
    ctx.summed(&failed, names.len() - failed.len()).into()
}

fn list(ctx: &mut Ctx<'_>, _: &[Value]) -> Outcome {
    let (shelf, session) = (ctx.desk.shelf(), ctx.session.tool.session);
    let mut all = Vec::new();
    for name in shelf.names(session) {
        if let Ok(it) = shelf.find(session, &name) {
            all.extend([name, Value::from(it.kind().name()), Value::Text(it.unit.clone())]);
        }
    }
    Done::with(vec![Value::List(all)]).into()
}
