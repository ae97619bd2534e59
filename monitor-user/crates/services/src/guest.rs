//! Services that another process brings: it registers a prefix, and is asked what comes with it.
//!
//! In: names from its tool, answers to what it was asked. Out: what the registry and the engine
//! keep. How a call gets there and back is `engine/ask/guest.rs`; how to write one, and why this
//! replaces a linked library, docs/EXTENSIONS.md.

use super::ctx::Ctx;
use super::outcome::Outcome;
use super::row::{Act, Given, Row};
use monitor_event::outcome::{Done, Refusal};
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Name, Status, Value};

/// What stands for every service that is brought: its own process knows what it takes.
pub const BROUGHT: Row = Row {
    name: "extension_called",
    takes: &[Param { name: "args", kind: Kind::Many(&Kind::Any) }],
    gives: &[Given::ANY],
    act: Act::Synchronous(|_, _| {
        Done::from(Refusal::new(Status::INTERNAL, "it was not forwarded")).into()
    }),
    ..Row::BLANK
};

/// A service that somebody brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    /// Its name, with the prefix.
    pub name: String,
    /// What it takes, for the manual.
    pub takes: String,
    /// What it does.
    pub help: String,
}

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "extension_register",
        takes: &[
            Param { name: "prefix", kind: Kind::Text },
            Param { name: "services", kind: Kind::Some(&Kind::Text) },
        ],
        help: "The tool brings services of its own: of each its name, which begins with the \
               prefix, what it takes, and what it does, as three strings. Whoever asks for one \
               makes the tool hear `extension_called`: a number, the name, the user who asks, and \
               the parameters; it answers with `extension_reply`. They are there for root's tools \
               and those of the same user, for everybody if root brings them, and go with the \
               connection. See docs/EXTENSIONS.md.",
        examples: &["> 1 [0] extension_register(\"demo_\",[\"demo_add\",\"integer a, integer b\",\
                     \"Adds.\"])\n< 1 [0] extension_register(0)\n\
                     tool b 0\n> 10 [0] demo_add(2,3)\ntool a\n\
                     < 0 [0] extension_called(0,4,\"demo_add\",0,[2,3])\n\
                     > 2 [0] extension_reply(4,0,[5])\n< 2 [0] extension_reply(0)\n\
                     tool b\n< 10 [0] demo_add(0,5)"],
        act: Act::Manipulation(|ctx, args| register(ctx, args).into()),
        ..Row::BLANK
    },
    Row {
        name: "extension_reply",
        takes: &[
            Param { name: "call", kind: Kind::Integer },
            Param { name: "status", kind: Kind::Integer },
            Param { name: "results", kind: Kind::Many(&Kind::Any) },
        ],
        help: "What the tool answers to `extension_called`: its number, a status and the results. \
               Who waits is told within ten seconds, or that nobody answered.",
        examples: &["> 1 [0] extension_reply(7,0,[])\n\
                     < 1 [0] extension_reply(300,0,\"nobody waits for an answer to call 7\")"],
        act: Act::Manipulation(|ctx, args| reply(ctx, args).into()),
        ..Row::BLANK
    },
    Row {
        name: "extension_services",
        gives: &[Given { name: "services", kind: "{string name; string takes; string help}*" }],
        help: "Lists the services that other tools bring at the moment.",
        examples: &["> 1 [0] extension_services()\n< 1 [0] extension_services(0,[])"],
        act: Act::Synchronous(services),
        ..Row::BLANK
    },
];

fn register(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let text = |value: &Value| value.text().map(|it| it.to_str_lossy().into_owned());
    let prefix = text(&args[0]).unwrap_or_default();
    let words: Vec<String> = args[1].list().unwrap_or_default().iter().filter_map(text).collect();
    let wrong = |text: String| Refusal::new(Status::RANGE, text);
    if !prefix.ends_with('_') || prefix.len() < 2 || Name::new(&prefix).is_none() {
        return Err(wrong(format!("{prefix:?}: wanted a prefix such as \"demo_\"")));
    }
    let (triples, []) = words.as_chunks::<3>() else {
        return Err(wrong("services: wanted name, parameters and help of each".to_owned()));
    };
    let brought = triples.iter().map(|[name, takes, help]| {
        let (name, takes, help) = (name.clone(), takes.clone(), help.clone());
        Brought { name, takes, help }
    });
    let brought: Vec<Brought> = brought.collect();
    let is_own = |it: &&Brought| it.name.starts_with(&prefix) && Name::new(&it.name).is_some();
    if let Some(it) = brought.iter().find(|it| !is_own(it)) {
        return Err(wrong(format!("{:?} is no name that begins with {prefix}", it.name)));
    }
    let tool = ctx.session.tool;
    ctx.desk.bring((tool.session, tool.uid), prefix, brought).map(|()| Done::ok())
}

fn reply(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let [call, status, results] = args else { unreachable!("the row takes three parameters") };
    let wrong = |text| Refusal::new(Status::RANGE, text);
    let call = call.integer().ok_or_else(|| wrong("wanted the number of extension_called"))?;
    let status = status.integer().ok_or_else(|| wrong("wanted a status of 32 bits"))?;
    let results = results.list().unwrap_or_default().to_vec();
    let done = Done { status: Status(status), results, reason: None };
    ctx.desk.answer(call, done).map(|()| Done::ok())
}

fn services(ctx: &mut Ctx<'_>, _: &[Value]) -> Outcome {
    let texts = |it: &Brought| [&it.name, &it.takes, &it.help].map(|text| Value::from(&**text));
    let all = ctx.desk.brought(ctx.session.tool.uid).iter().flat_map(texts).collect();
    Done::with(vec![Value::List(all)]).into()
}
