//! Services about nodes (OMIS 1.0, section 8.1.3). "The application" is the attached processes.

use super::{
    CallContext, FlagSpec, Handler, Outcome, ResultSpec, ServiceSpec,
    spec::{error, param},
};
use monitor_event::{CallResult, EventFilter, EventKind, Refusal};
use monitor_model::ProcessField;
use monitor_omis::{Status, Value, param_type::ParamType};
use std::collections::BTreeSet;

const NODE: &[ResultSpec] = &[ResultSpec::new("node_number", "integer")];

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "number_of_nodes",
        results: &[ResultSpec::new("num_nodes", "integer")],
        help: "Returns the number of nodes; each node gives the same reply.",
        examples: &["> 10 [] number_of_nodes()\n< 10 [0] number_of_nodes(0,1)"],
        handler: Handler::Synchronous(number_of_nodes),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "list_nodes",
        results: &[ResultSpec::new("nodes", "{integer node_number; string node_name}*")],
        help: "Lists the numbers of the nodes and their names; each node gives the same reply.",
        examples: &["> 10 [0] list_nodes()\n< 10 [0] list_nodes(0,[0,\"node0\"])"],
        handler: Handler::Synchronous(list_nodes),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "node_info",
        params: &[param("flags", ParamType::Integer)],
        results: &[ResultSpec { name: "info", kind: ResultSpec::ANY.kind }],
        flags: FLAGS,
        help: "Returns the properties of a node that `flags` selects, one result for each of its \
               bits, in their order; -1 where one is not available. OMIS 1.0 has two results for \
               bit 5: here the processor speed has bit 6.",
        examples: &["node online_cpus=2 mem_available_bytes=1M\n> 10 [0] node_info(11)\n\
                     < 10 [0] node_info(0,\"test\",2,1048576)"],
        errors: &[error(
            Status::RANGE,
            "a bit of `flags` that it does not have",
            "> 10 [0] node_info(128)",
        )],
        handler: Handler::Synchronous(node_info),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "new_node",
        results: NODE,
        help: "Occurs on every node where it is defined when a node has joined and its monitor \
               is ready.",
        examples: &["> 10 [] new_node(): 11 [0] print([$1])\n< 10 [0] new_node(0)"],
        handler: Handler::Event(|_, _| Ok(EventFilter::all(EventKind::NodeJoined))),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "node_removed",
        results: NODE,
        help: "Occurs when a node leaves the cluster, before an orderly shutdown and after a \
               loss; actions on a lost node are answered with `NODE_DOWN`.",
        examples: &["> 10 [] node_removed(): 11 [0] print([$1])\n< 10 [0] node_removed(0)"],
        handler: Handler::Event(|_, _| Ok(EventFilter::all(EventKind::NodeLeft))),
        ..ServiceSpec::BASE
    },
];

const FLAGS: &[FlagSpec] = &[
    FlagSpec::new(0, "architecture", "string", "as `uname -m` names it"),
    FlagSpec::new(1, "number_of_cpus", "integer", "online processors"),
    FlagSpec::new(
        2,
        "used_cpus",
        "integer",
        "processors that attached processes run on or last ran on",
    ),
    FlagSpec::new(3, "avail_memory", "integer", "available memory, in bytes"),
    FlagSpec::new(4, "used_memory", "integer", "resident memory of attached processes, in bytes"),
    FlagSpec::new(
        5,
        "avail_disk",
        "integer",
        "disk space available to users for temporary files, in bytes",
    ),
    FlagSpec::new(6, "cpu_speed", "integer", "highest frequency of a processor, in MHz"),
];

fn number_of_nodes(ctx: &mut CallContext<'_>, _: &[Value]) -> Result<Outcome, Refusal> {
    let number = u64::try_from(ctx.members.len()).unwrap_or(u64::MAX);
    Ok(CallResult::with(vec![Value::from(number)]).into())
}

fn list_nodes(ctx: &mut CallContext<'_>, _: &[Value]) -> Result<Outcome, Refusal> {
    let pair = |it: &super::context::ClusterMember| {
        [Value::from(it.node.0), Value::from(it.name.as_str())]
    };
    Ok(CallResult::with(vec![Value::List(ctx.members.iter().flat_map(pair).collect())]).into())
}

fn node_info(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let flags = super::spec::flags(args.first(), FLAGS)?;
    let facts = ctx.platform.node_facts()?;
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
    // A struct of the specification (chapter 8) is its members without brackets.
    Ok(CallResult::with(wanted.map(|(_, value)| value).collect()).into())
}
