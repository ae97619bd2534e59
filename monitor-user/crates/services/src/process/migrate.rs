//! `prepare_checkpoint`, `migrate_process`, `restore_process`.
//!
//! In: processes, nodes, names of dumps. Out: the first thing that blocks a dump; a migration,
//! which the engine executes (`requests/migrate`); a restored process. CRIU is checked at each
//! call: it may have been installed since.

use super::start::attach_started;
use super::{CONTROLLED, TID};
use crate::spec::{error, param, params};
use crate::{CallContext, ExecutionLevel, Handler, Outcome, ResultSpec, ServiceSpec, timeouts};
use monitor_event::{ActionReport, CallResult, Refusal, Right};
use monitor_omis::{Node, Status, Value, param_type::ParamType};
use monitor_platform::ProcessAction;

const ANYWHERE: ServiceSpec = ServiceSpec { level: ExecutionLevel::Anywhere, ..CONTROLLED };

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "prepare_checkpoint",
        help: "Succeeds if CRIU works here and a dump of the attached processes would lose \
               nothing: none has a connection, a pipe to another process, a terminal, or shared \
               memory. Otherwise it is refused with the first obstacle. Messages in transit are \
               not drained: no message library allows that from outside.",
        examples: &[
            "> 10 [0] prepare_checkpoint()\n< 10 [0] prepare_checkpoint(402,0,\
                     \"CRIU is not installed\")",
            "criu 4.1\nprocess 7\nprocess 8\nattach 7\n> 10 [0] prepare_checkpoint()\n\
             < 10 [0] prepare_checkpoint(0)\nattach 8\ntie 8 is connected to 10.0.0.1:80\n\
             > 11 [0] prepare_checkpoint()\n< 11 [0] prepare_checkpoint(402,0,\
             \"process 8 is connected to 10.0.0.1:80\")",
        ],
        errors: &[error(
            Status::UNSUPPORTED,
            "CRIU is missing, or a process has what a dump would lose",
            "process 7\nattach 7\n> 10 [0] prepare_checkpoint()",
        )],
        handler: Handler::Manipulation(|ctx, _| prepare(ctx)),
        ..ANYWHERE
    },
    ServiceSpec {
        name: "migrate_process",
        params: &[TID, param("node", ParamType::Node)],
        timeout: timeouts::MIGRATION,
        help: "Moves one process, with all its threads, to another node. `ready_to_migrate` \
               occurs here, and its actions run; then CRIU dumps the process to the folder \
               `checkpoint.images`, which both nodes must see, and restores it there with the \
               same pid, its files and its memory; it is attached there, and \
               `migration_finished` occurs. Its end here is not reported as an event. The \
               service refuses a process that `prepare_checkpoint` would refuse, that has \
               children, or a parent which would see it end, that a tool has stopped, or has \
               breakpoints or probes in; and whatever CRIU refuses. Then, and if the other node \
               cannot restore it, it continues here.",
        examples: &[
            "nodes 2\nprocess 7\nattach 7\n> 10 [0] migrate_process(7,1)\n\
                     < 10 [0] migrate_process(402,0,\"CRIU is not \
                     installed\")\n> 11 [0] migrate_process(7,0)\n\
                     < 11 [0] migrate_process(303,0,\"process 7 is on node 0 already\")\n\
                     > 12 [0] migrate_process(7,5)\n\
                     < 12 [0] migrate_process(200,0,\"no node 5: see list_nodes\")",
            "nodes 2\ncriu 4.1\n1: criu 4.1\nprocess 7\nattach 7\n\
             > 10 [0] migrate_process(7,1)\n< 10 [0] migrate_process(0)\n\
             > 11 [1] process_info([7],4)\n< 11 [1] process_info(0,1,[7,3])",
        ],
        errors: &[
            error(
                Status::NO_SUCH_NODE,
                "no node has the number",
                "process 7\nattach 7\n> 10 [0] migrate_process(7,5)",
            ),
            error(
                Status::WRONG_STATE,
                "the process is on the node already",
                "process 7\nattach 7\n> 10 [0] migrate_process(7,0)",
            ),
            error(
                Status::UNSUPPORTED,
                "the process cannot be moved without a loss",
                "nodes 2\nprocess 7\nattach 7\n> 10 [0] migrate_process(7,1)",
            ),
        ],
        handler: Handler::Manipulation(migrate),
        ..ANYWHERE
    },
    ServiceSpec {
        name: "restore_process",
        params: &[param("name", ParamType::Text)],
        results: &[ResultSpec::new("tid", "integer")],
        right: Right::Nothing,
        timeout: timeouts::CHECKPOINT,
        help: "Restores a process that was dumped to the folder `checkpoint.images` under this \
               name, attaches it, and raises `migration_finished`. `migrate_process` calls it on \
               the other node; a tool needs it only for a process that a failed migration has \
               left there. The pid that it had must be free. An extension.",
        examples: &["criu 4.1\n> 10 [0] restore_process(\"7-5\")\n\
                     < 10 [0] restore_process(0,7)\n> 11 [0] restore_process(\"/7\")\n\
                     < 11 [0] restore_process(105,0,\"no dump has the name \
                     \\\"/7\\\"\")"],
        errors: &[error(
            Status::RANGE,
            "the name is not one of a dump",
            "criu 4.1\n> 10 [0] restore_process(\"/7\")",
        )],
        handler: Handler::Manipulation(|ctx, args| restore(ctx, &args[0])),
        ..ANYWHERE
    },
];

/// Checks all attached processes; CRIU alone if there are none.
fn prepare(ctx: &mut CallContext<'_>) -> Result<Outcome, Refusal> {
    let all = Value::List(Vec::new());
    let chosen = ctx.processes(&all)?;
    match chosen.served.is_empty() && chosen.failed.is_empty() {
        true => ctx.act_on_none(&ProcessAction::Checkpoint, prepared),
        false => ctx.act_on(&all, &ProcessAction::Lossless, prepared),
    }
}

/// The first obstacle.
fn prepared(_: &mut CallContext<'_>, report: ActionReport) -> Result<CallResult, Refusal> {
    let failed = report.failed.into_iter().map(|(_, why)| why);
    let refused = report.by_process.into_iter().filter_map(|(_, answer)| answer.err());
    failed.chain(refused).next().map_or_else(|| Ok(CallResult::ok()), Err)
}

fn migrate(ctx: &mut CallContext<'_>, args: &[Value]) -> Result<Outcome, Refusal> {
    let [tid, node] = params(args);
    let id = ctx.process(tid)?.id;
    let to = match node {
        Value::Token(token) => token.named_node(),
        number => number.integer().map(Node),
    };
    let to = to.filter(|to| ctx.members.iter().any(|it| it.node == *to)).ok_or_else(|| {
        Refusal::new(Status::NO_SUCH_NODE, format!("no node {node}: see list_nodes"))
    })?;
    if to == ctx.node {
        let text = format!("process {tid} is on node {} already", to.0);
        return Err(Refusal::new(Status::WRONG_STATE, text));
    }
    Ok(Outcome::Migrates(id, to))
}

fn restore(ctx: &mut CallContext<'_>, name: &Value) -> Result<Outcome, Refusal> {
    ctx.session.tool.may_start()?;
    let name = name.text().map(|it| it.to_str_lossy().into_owned()).unwrap_or_default();
    ctx.act_on_none(&ProcessAction::Restore(name), attach_started)
}
