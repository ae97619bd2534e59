//! Services about nodes (section 8.1.3). What belongs to the application is what is attached.

use super::ctx::Ctx;
use super::outcome::Outcome;
use super::row::{Act, Flag, Given, Row};
use monitor_event::occurrence::{EventKind, EventFilter};
use monitor_event::outcome::{Done, Refusal};
use monitor_model::field::ProcessField;
use monitor_omis::Value;
use monitor_omis::kind::{Kind, Param};
use std::collections::BTreeSet;

const NODE: &[Given] = &[Given { name: "node_number", kind: "integer" }];

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "number_of_nodes",
        gives: &[Given { name: "num_nodes", kind: "integer" }],
        help: "Tells how many nodes there are, whichever of them is asked.",
        examples: &["> 10 [] number_of_nodes()\n< 10 [0] number_of_nodes(0,1)"],
        act: Act::Synchronous(number_of_nodes),
        ..Row::BLANK
    },
    Row {
        name: "list_nodes",
        gives: &[Given { name: "nodes", kind: "{integer node_number; string node_name}*" }],
        help: "Lists the numbers of the nodes and their names, whichever of them is asked.",
        examples: &["> 10 [0] list_nodes()\n< 10 [0] list_nodes(0,[0,\"node0\"])"],
        act: Act::Synchronous(list_nodes),
        ..Row::BLANK
    },
    Row {
        name: "node_info",
        takes: &[Param { name: "flags", kind: Kind::Integer }],
        gives: &[Given { name: "info", kind: "any*" }],
        flags: FLAGS,
        help: "Tells of a node what `flags` asks for, in the order of its bits; what cannot be \
               found out is -1. The specification prints two results for bit 5: the speed of a \
               processor has bit 6 here.",
        examples: &["node cpus=2 mem_available_bytes=1M\n> 10 [0] node_info(11)\n\
                     < 10 [0] node_info(0,[\"test\",2,1048576])"],
        act: Act::Synchronous(node_info),
        ..Row::BLANK
    },
    Row {
        name: "new_node",
        gives: NODE,
        help: "Occurs when a node has come, after its monitor is ready, on every node where it \
               is defined.",
        examples: &["> 10 [] new_node(): 11 [0] print([$1])\n< 10 [0] new_node(0)"],
        act: Act::Event(|_, _| Ok(EventFilter::all(EventKind::NodeCame))),
        ..Row::BLANK
    },
    Row {
        name: "node_removed",
        gives: NODE,
        help: "Occurs when a node goes. Of one that ends as it should this is known before; \
               actions on one that was lost are answered `NODE_DOWN`.",
        examples: &["> 10 [] node_removed(): 11 [0] print([$1])\n< 10 [0] node_removed(0)"],
        act: Act::Event(|_, _| Ok(EventFilter::all(EventKind::NodeWent))),
        ..Row::BLANK
    },
];

const FLAGS: &[Flag] = &[
    Flag::new(0, "architecture", "string", "as `uname -m` names it"),
    Flag::new(1, "number_of_cpus", "integer", "processors on line"),
    Flag::new(
        2,
        "used_cpus",
        "integer",
        "processors that attached processes run on or last ran on",
    ),
    Flag::new(3, "avail_memory", "integer", "memory that can be had, in bytes"),
    Flag::new(4, "used_memory", "integer", "resident memory of attached processes, in bytes"),
    Flag::new(
        5,
        "avail_disk",
        "integer",
        "disk space that users can have for temporary files, in bytes",
    ),
    Flag::new(6, "cpu_speed", "integer", "highest frequency of a processor, in MHz"),
];

fn number_of_nodes(ctx: &mut Ctx<'_>, _: &[Value]) -> Outcome {
    let number = u64::try_from(ctx.members.len()).unwrap_or(u64::MAX);
    Done::with(vec![Value::from(number)]).into()
}

fn list_nodes(ctx: &mut Ctx<'_>, _: &[Value]) -> Outcome {
    let pair = |it: &super::ctx::Member| [Value::from(it.node.0), Value::from(it.name.as_str())];
    Done::with(vec![Value::List(ctx.members.iter().flat_map(pair).collect())]).into()
}

fn node_info(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    info(ctx, args).into()
}

fn info(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let flags = super::row::flags(args.first(), FLAGS)?;
    let facts = ctx.ground.node()?;
    let (mut cpus, mut memory) = (BTreeSet::new(), 0);
    if flags & 0b1_0100 != 0 {
        for it in ctx.processes(&Value::List(Vec::new()))?.served {
            cpus.extend(it.row.get(ProcessField::Processor));
            memory += it.row.get(ProcessField::Rss).unwrap_or(0);
        }
    }
    let number = |it: Option<u64>| it.map_or(Value::from(-1), Value::from);
    let all = [
        Value::from(facts.architecture.as_str()),
        number(facts.cpus),
        number(u64::try_from(cpus.len()).ok()),
        number(facts.avail_memory),
        number(Some(memory)),
        number(facts.avail_disk),
        number(facts.cpu_speed),
    ];
    let wanted = (0..).zip(all).filter(|(bit, _)| flags >> bit & 1 == 1);
    Ok(Done::with(vec![Value::List(wanted.map(|(_, value)| value).collect())]))
}
