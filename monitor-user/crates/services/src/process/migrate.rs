//! Dumping processes, and moving them from node to node.
//!
//! In: processes, nodes, names of what was dumped. Out: whether anything would be lost; that a
//! process leaves, which the engine sees to (`engine/ask/migrate`); one that was made anew.
//! CRIU is asked each time: it may have been installed since, or the kernel be another one.

use super::start::{may_start, started};
use super::{CONTROLLED, TID};
use crate::ctx::Ctx;
use crate::outcome::{Later, Outcome, Then, outcome};
use crate::row;
use crate::row::{Given, Level, Row};
use crate::within;
use monitor_event::outcome::{Done, Refusal, Report};
use monitor_event::right::Right;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Node, Status, Value};
use monitor_platform::Act;

const ANYWHERE: Row = Row { level: Level::Anywhere, ..CONTROLLED };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "prepare_checkpoint",
        help: "Done, if CRIU works here and nothing would be lost of the attached processes, were \
               they dumped now: none is connected to anybody, has a pipe with another process, a \
               terminal, or shared memory. Else it is refused with the first thing that is in \
               the way. Nothing is brought home: no message library lets others do that.",
        examples: &[
            "> 10 [0] prepare_checkpoint()\n< 10 [0] prepare_checkpoint(402,0,\
                     \"CRIU is not installed: the script has none\")",
            "criu 4.1\nprocess 7\nprocess 8\nattach 7\n> 10 [0] prepare_checkpoint()\n\
             < 10 [0] prepare_checkpoint(0)\nattach 8\ntie 8 is connected to 10.0.0.1:80\n\
             > 11 [0] prepare_checkpoint()\n< 11 [0] prepare_checkpoint(402,0,\
             \"process 8 is connected to 10.0.0.1:80\")",
        ],
        act: row::Act::Manipulation(|ctx, _| prepare(ctx)),
        ..ANYWHERE
    },
    Row {
        name: "migrate_process",
        takes: &[TID, Param { name: "node", kind: Kind::Node }],
        within: within::JOURNEY,
        help: "Moves one process, with all its threads, to another node. `ready_to_migrate` \
               occurs here, and its actions are run; then CRIU dumps the process to the folder \
               `checkpoint.images`, which both nodes must see, and restores it there with the \
               same number, its files and its memory; it is attached there, and \
               `migration_finished` occurs. That it ends here is no event. Refused is one that \
               `prepare_checkpoint` would refuse, that has children, or a parent which would see \
               it end; whom a tool has stopped, or has breakpoints or probes in; and whatever \
               CRIU refuses. Then, and if the other node cannot restore it, it runs on here.",
        examples: &[
            "nodes 2\nprocess 7\nattach 7\n> 10 [0] migrate_process(7,1)\n\
                     < 10 [0] migrate_process(402,0,\"CRIU is not installed: the script has \
                     none\")\n> 11 [0] migrate_process(7,0)\n\
                     < 11 [0] migrate_process(303,0,\"process 7 is on node 0 already\")\n\
                     > 12 [0] migrate_process(7,5)\n\
                     < 12 [0] migrate_process(200,0,\"there is no node 5: see list_nodes\")",
            "nodes 2\ncriu 4.1\n1: criu 4.1\nprocess 7\nattach 7\n\
             > 10 [0] migrate_process(7,1)\n< 10 [0] migrate_process(0)\n\
             > 11 [1] process_info([7],4)\n< 11 [1] process_info(0,1,[7,3])",
        ],
        act: row::Act::Manipulation(|ctx, args| outcome(leave(ctx, args))),
        ..ANYWHERE
    },
    Row {
        name: "restore_process",
        takes: &[Param { name: "name", kind: Kind::Text }],
        gives: &[Given { name: "tid", kind: "integer" }],
        right: Right::Nothing,
        within: within::MOVE,
        help: "Makes a process anew that was dumped to the folder `checkpoint.images` under this \
               name, attaches it, and lets `migration_finished` occur. `migrate_process` asks it \
               of the other node; a tool needs it only for a process that a migration has left \
               there. It must be free to use the number that it had. An extension.",
        examples: &["criu 4.1\n> 10 [0] restore_process(\"7-5\")\n\
                     < 10 [0] restore_process(0,7)\n> 11 [0] restore_process(\"/7\")\n\
                     < 11 [0] restore_process(105,0,\"nothing was dumped under the name \
                     \\\"/7\\\"\")"],
        act: row::Act::Manipulation(|ctx, args| outcome(restore(ctx, &args[0]))),
        ..ANYWHERE
    },
];

/// Asks of all that are attached; of nobody, asks CRIU alone.
fn prepare(ctx: &mut Ctx<'_>) -> Outcome {
    let all = Value::List(Vec::new());
    match ctx.processes(&all) {
        Ok(chosen) if chosen.served.is_empty() && chosen.failed.is_empty() => {
            order(ctx, &Act::Checkpoint, prepared)
        }
        Ok(_) => ctx.act(&all, &Act::Lossless, prepared),
        Err(why) => Done::from(why).into(),
    }
}

/// The first thing that is in the way.
fn prepared(_: &mut Ctx<'_>, report: Report) -> Done {
    let failed = report.failed.into_iter().map(|(_, why)| why);
    let refused = report.each.into_iter().filter_map(|(_, answer)| answer.err());
    failed.chain(refused).next().map_or_else(Done::ok, Done::from)
}

fn leave(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [tid, node] = args else { unreachable!("the row takes two parameters") };
    let id = ctx.process(tid)?.id;
    let to = match node {
        Value::Token(token) => token.named_node(),
        number => number.integer().map(Node),
    };
    let to = to.filter(|to| ctx.members.iter().any(|it| it.node == *to)).ok_or_else(|| {
        Refusal::new(Status::NO_SUCH_NODE, format!("there is no node {node}: see list_nodes"))
    })?;
    if to == ctx.node {
        let text = format!("process {tid} is on node {} already", to.0);
        return Err(Refusal::new(Status::WRONG_STATE, text));
    }
    Ok(Outcome::Leaves(id, to))
}

fn restore(ctx: &mut Ctx<'_>, name: &Value) -> Result<Outcome, Refusal> {
    may_start(ctx)?;
    let name = name.text().map(|it| it.to_str_lossy().into_owned()).unwrap_or_default();
    Ok(order(ctx, &Act::Restore(name), started))
}

fn order(ctx: &mut Ctx<'_>, act: &Act, then: Then) -> Outcome {
    match ctx.order(act, &[]) {
        Some(each) => then(ctx, Report { each, failed: Vec::new() }).into(),
        None => Outcome::Later(Later { then, failed: Vec::new() }),
    }
}
