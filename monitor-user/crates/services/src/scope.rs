//! Which processes a session observes. Extensions: OMIS 1.0 speaks of "the application", and says
//! nowhere which processes that is.
//!
//! Whoever an attached process makes is attached too. What is not attached cannot be named.

use super::ctx::Ctx;
use super::outcome::Outcome;
use super::row::{Act, Given, Row};
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::Right;
use monitor_model::id::Pid;
use monitor_model::sample::Process;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Value};
use monitor_sampling::filter::Filter;

/// Most kinds of processes that a session waits for.
const MOST_JOINS: usize = 64;

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "attach",
        right: Right::Observe,
        takes: &[Param { name: "pid_list", kind: Kind::Some(&Kind::Integer) }],
        help: "Takes processes into the scope of the session, by their pids on the node that is \
               asked. Their numbers are their pids. Whoever they make from now on belongs to it.",
        examples: &["process 7\n> 10 [0] attach([7])\n< 10 [0] attach(0)\n\
                     > 11 [0] attach([7,8])\n< 11 [0] attach(1,[8,300])"],
        act: Act::Manipulation(attach),
        ..Row::BLANK
    },
    Row {
        name: "attach_command",
        right: Right::Observe,
        takes: &[Param { name: "pattern", kind: Kind::Text }],
        gives: &[Given { name: "tids", kind: "integer*" }],
        help: "Takes all processes with a command name like this into the scope, and each that \
               comes to be with such a name. `*` stands for any letters.",
        examples: &["process 7 comm=worker\nprocess 8 comm=other\n\
                     > 10 [0] attach_command(\"work*\")\n< 10 [0] attach_command(0,[7])"],
        act: Act::Synchronous(attach_command),
        ..Row::BLANK
    },
    Row {
        name: "attach_cgroup",
        right: Right::Observe,
        takes: &[Param { name: "path", kind: Kind::Text }],
        gives: &[Given { name: "tids", kind: "integer*" }],
        help: "Takes all processes in this cgroup or below it into the scope, and each that comes \
               to be there.",
        examples: &["process 7 cgroup=/job/7\nprocess 8 cgroup=/\n\
                     > 10 [0] attach_cgroup(\"/job\")\n< 10 [0] attach_cgroup(0,[7])"],
        act: Act::Synchronous(attach_cgroup),
        ..Row::BLANK
    },
    Row {
        name: "detach",
        right: Right::Observe,
        takes: &[Param { name: "tid_list", kind: Kind::Many(&Kind::Process) }],
        help: "Takes processes out of the scope; all of them, and whoever would join, if the list \
               is empty.",
        examples: &["process 7\nattach 7\n> 10 [0] detach([7])\n< 10 [0] detach(0)\n\
                     > 11 [0] process_info([7],0)\n< 11 [0] process_info(302,0,\
                     \"process 7 (test) is not attached: call attach([7])\")"],
        act: Act::Manipulation(detach),
        ..Row::BLANK
    },
];

fn attach(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    by_pid(ctx, args).into()
}

fn by_pid(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Done, Refusal> {
    let named = args.first().and_then(Value::list).unwrap_or_default();
    let mut pids: Vec<Pid> = named.iter().filter_map(|it| it.integer().map(Pid)).collect();
    pids.sort_unstable();
    pids.dedup();
    let seen = ctx.ground.look(&pids)?;
    let mut failed = Vec::new();
    let mut n_served = 0;
    for name in named {
        let it = seen.iter().find(|it| name.integer() == Some(it.id.pid.0));
        match it.filter(|it| ctx.session.tool.sees.shows(it)) {
            Some(it) => {
                ctx.session.attach(it.id);
                n_served += 1;
            }
            None => {
                let text = format!("no process {name} on node {}", ctx.node.0);
                failed.push((name.clone(), Refusal::new(Status::NO_SUCH_OBJECT, text)));
            }
        }
    }
    Ok(ctx.summed(&failed, n_served))
}

fn attach_command(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    let comms = text(args);
    attach_like(ctx, Filter { comms, ..Filter::default() }).into()
}

fn attach_cgroup(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    let cgroups = text(args);
    attach_like(ctx, Filter { cgroups, ..Filter::default() }).into()
}

fn text(args: &[Value]) -> Vec<String> {
    let text = args.first().and_then(Value::text);
    text.map(|text| text.to_str_lossy().into_owned()).into_iter().collect()
}

fn attach_like(ctx: &mut Ctx<'_>, like: Filter) -> Result<Done, Refusal> {
    if ctx.session.scope.n_joins() >= MOST_JOINS {
        let text = format!("{MOST_JOINS} kinds of processes are waited for; no more are taken");
        return Err(Refusal::new(Status::RESOURCE, text));
    }
    let mut all = ctx.ground.everybody()?;
    if like.needs_texts() {
        ctx.ground.describe(&mut all);
    }
    let sees = ctx.session.tool.sees;
    let is_meant = |it: &&Process| sees.shows(it) && like.admits(it);
    let meant: Vec<_> = all.iter().filter(is_meant).map(|it| it.id).collect();
    for id in &meant {
        ctx.session.attach(*id);
    }
    ctx.session.scope.join(like);
    let tids = meant.into_iter().map(|id| ctx.number(id)).collect();
    Ok(Done::with(vec![Value::List(tids)]))
}

fn detach(ctx: &mut Ctx<'_>, args: &[Value]) -> Outcome {
    let list = args.first().cloned().unwrap_or(Value::List(Vec::new()));
    if list.list().is_some_and(<[Value]>::is_empty) {
        ctx.session.scope.clear();
        return Done::ok().into();
    }
    ctx.processes(&list).map(|chosen| detach_these(ctx, &chosen)).into()
}

fn detach_these(ctx: &mut Ctx<'_>, chosen: &super::ctx::Chosen) -> Done {
    for it in &chosen.served {
        let _ = ctx.session.scope.detach(it.id);
    }
    ctx.summed(&chosen.failed, chosen.served.len())
}
