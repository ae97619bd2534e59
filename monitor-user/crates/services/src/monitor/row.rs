//! The services of `mon_` that read, and those for all monitors.

use super::ask;
use crate::outcome::outcome;
use crate::row::{Act, Given, Row};
use monitor_event::occurrence::EventKind;
use monitor_omis::kind::{Kind, Param};

/// A service of this extension.
pub const BLANK: Row = Row { prefix: "mon_", ..Row::BLANK };
/// The name of a monitor.
pub const NAME: Param = Param { name: "name", kind: Kind::Text };
const PART: Param = Param { name: "part", kind: Kind::Text };
const FIELDS: Param = Param { name: "fields", kind: Kind::Many(&Kind::Text) };
/// Seconds from one look to the next.
pub const EVERY: Param = Param { name: "every", kind: Kind::Float };
/// Names and values.
pub const OPTIONS: Param = Param { name: "options", kind: Kind::Many(&Kind::Any) };
/// An object.
pub const PAIRS: &str = "{string name; any value}*";
/// The name of a monitor, as it was given or found.
pub const GIVEN_NAME: Given = Given { name: "name", kind: "string" };
const SAMPLE: Given = Given { name: "sample", kind: PAIRS };
const NOTES: Given = Given { name: "notes", kind: "string*" };

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "mon_sample",
        takes: &[PART, FIELDS, OPTIONS],
        gives: &[SAMPLE, NOTES],
        help: "Reads once: `proc`, `node`, `disk`, `net` or `all`, and of these the fields that \
               are named (`monitor fields`, or the names of PMIx), all if none is. Options are \
               names and values as `monitor` of docs/SOCKET.md has them: `targets` (process ids, \
               or `[\"namespace\",\"job\",\"rank\",3]`), `disks`, `nets`, `comms`, `uids`, \
               `cgroups`, `group_by`, `keep_ns`, `sort`, `top`, `threads`, `capabilities`, \
               `histograms`, `pmix`. The sample has the names and the shape of the JSON of \
               docs/OUTPUT.md: an object is a list of names and values, what could not be read \
               is not in it. Whom the tool may see the policy of the service says, whether \
               attached or not. If something that was named is missing, the status is `PARTIAL`.",
        examples: &[
            "process 7 comm=a rss_bytes=4096\n\
             > 10 [0] mon_sample(\"proc\",[\"rss_bytes\"],\"targets\",[7])\n\
             < 10 [0] mon_sample(0,[\"schema_version\",1,\"time_unix_ns\",\
             1767225600000000000,\"node\",\"node0\",\"backend\",\"test\",\"processes\",\
             [[\"pid\",7,\"start_time_ns\",1000000000,\"rss_bytes\",4096]],\"notes\",[],\
             \"lost\",[]],[])",
            "> 10 [0] mon_sample(\"proc\",[\"rss\"])\n\
             < 10 [0] mon_sample(105,0,\
             \"unknown field \\\"rss\\\"; did you mean \\\"rss_bytes\\\"?\")\n\
             > 11 [0] mon_sample(\"proc\",[],\"targets\",[9])\n\
             < 11 [0] mon_sample(300,0,\"no process 9\")",
        ],
        act: Act::Synchronous(|ctx, args| outcome(ask::sample(ctx, args))),
        ..BLANK
    },
    Row {
        name: "mon_start",
        takes: &[NAME, PART, FIELDS, EVERY, OPTIONS],
        gives: &[GIVEN_NAME, SAMPLE, NOTES],
        help: "Starts a monitor of the tool's own, which reads every so many seconds; the first \
               sample is the reply, every later one occurs as `mon_sampled`. An empty name lets \
               the service find one. Options are those of `mon_sample`, and `count` (samples \
               after which it ends), `follow` and `replace`. It ends as `mon_ended` tells, and \
               with the tool's connection.",
        examples: &["process 7 comm=a\n\
             > 10 [0] mon_sampled(\"m\"): 11 [0] print($1,$2,$3)\n\
             < 10 [0] mon_sampled(0)\n\
             > 12 [0] mon_ended(\"m\"): 13 [0] print($1,$2)\n\
             < 12 [0] mon_ended(0)\n\
             > 14 [0] enable(10); 15 [0] enable(12)\n\
             < 14 [0] enable(0); 15 [0] enable(0)\n\
             > 16 [0] mon_start(\"m\",\"proc\",[\"pid\"],0.5,\"targets\",[7],\"count\",2)\n\
             < 16 [0] mon_start(0,\"m\",[\"schema_version\",1,\"time_unix_ns\",\
             1767225600000000000,\"node\",\"node0\",\"backend\",\"test\",\"processes\",\
             [[\"pid\",7,\"start_time_ns\",1000000000]],\"notes\",[],\"lost\",[]],[])\n\
             at 510ms\n\
             < 11 [0] print(0,[\"m\",1,0])\n\
             < 13 [0] print(0,[\"m\",\"count\"])"],
        act: Act::Synchronous(|ctx, args| outcome(ask::start(ctx, args))),
        ..BLANK
    },
    Row {
        name: "mon_cancel",
        takes: &[NAME],
        gives: &[Given { name: "names", kind: "string*" }],
        help: "Cancels a monitor of the tool, or of another connection of its user, a watch for \
               beats or of a file too; all that the tool has started, if the name is empty. When \
               the reply is there, no sample and no alert of them occurs any more.",
        examples: &["> 10 [0] mon_start(\"m\",\"node\",[\"load1\"],1); 11 [0] mon_cancel(\"m\")\n\
             < 10 [0] mon_start(0,\"m\",[\"schema_version\",1,\"time_unix_ns\",\
             1767225600000000000,\"node\",\"node0\",\"backend\",\"test\",\"node_stats\",\
             [],\"notes\",[],\"lost\",[]],[]); 11 [0] mon_cancel(0,[\"m\"])\n\
             > 12 [0] mon_cancel(\"m\"); 13 [0] mon_cancel(\"\")\n\
             < 12 [0] mon_cancel(300,0,\
             \"no monitor \\\"m\\\" of yours\"); 13 [0] mon_cancel(0,[])"],
        act: Act::Synchronous(|ctx, args| outcome(ask::cancel(ctx, args))),
        ..BLANK
    },
    Row {
        name: "mon_list",
        gives: &[Given { name: "monitors", kind: "{{string name; any value}*}*" }],
        help: "Lists the monitors that the tool may know of, those of other connections and of \
               `monitor start` too: for each its name (`id`), its user, its requestor and so on, \
               as `list` of docs/SOCKET.md tells them.",
        examples: &["> 10 [0] mon_list()\n< 10 [0] mon_list(0,[])"],
        act: Act::Synchronous(|ctx, _| outcome(ask::list(ctx))),
        ..BLANK
    },
    Row {
        name: "mon_sampled",
        takes: &[NAME],
        gives: &[
            GIVEN_NAME,
            Given { name: "seq", kind: "integer" },
            Given { name: "missed", kind: "integer" },
            Given { name: "dropped", kind: "integer" },
            SAMPLE,
            NOTES,
        ],
        help: "Occurs with each sample of a monitor that this tool has started, of all of them if \
               the name is empty: its place in the series (the reply was 0), how many ticks were \
               left out since it began, how many samples were dropped since the one before, the \
               sample, and notes that have no room in it.",
        examples: &["process 7 comm=a\n\
             > 10 [0] mon_sampled(\"\"): 11 [0] print($2,$5)\n\
             < 10 [0] mon_sampled(0)\n\
             > 12 [0] enable(10); 13 [0] mon_start(\"\",\"proc\",[\"comm\"],1)\n\
             < 12 [0] enable(0); 13 [0] mon_start(0,\"monitor-0\",[\"schema_version\",1,\
             \"time_unix_ns\",1767225600000000000,\"node\",\"node0\",\"backend\",\
             \"test\",\"processes\",[[\"pid\",7,\"start_time_ns\",1000000000,\"comm\",\
             \"a\"]],\"notes\",[],\"lost\",[]],[])\n\
             at 1010ms\n\
             < 11 [0] print(0,[1,[\"schema_version\",1,\"time_unix_ns\",\
             1767225601010000000,\"node\",\"node0\",\"backend\",\"test\",\"interval_ns\",\
             1010000000,\"processes\",[[\"pid\",7,\"start_time_ns\",1000000000,\"comm\",\
             \"a\"]],\"notes\",[],\"lost\",[]]])"],
        act: Act::Event(|ctx, args| Ok(ask::watch(ctx, args, EventKind::Sampled))),
        ..BLANK
    },
    Row {
        name: "mon_ended",
        takes: &[NAME],
        gives: &[
            GIVEN_NAME,
            Given { name: "reason", kind: "string" },
            Given { name: "message", kind: "string" },
        ],
        help: "Occurs when a monitor of this tool has ended by itself: `targets_gone` (its last \
               sample has the last records of the processes), `count`, `failed`, `replaced`, \
               `shutdown`, or `cancelled` by somebody else.",
        examples: &["> 10 [0] mon_ended(\"\"): 11 [0] print($1,$2)\n\
             < 10 [0] mon_ended(0)\n\
             > 12 [0] enable(10); 13 [0] mon_start(\"m\",\"node\",[\"load1\"],1)\n\
             < 12 [0] enable(0); 13 [0] mon_start(0,\"m\",[\"schema_version\",1,\
             \"time_unix_ns\",1767225600000000000,\"node\",\"node0\",\"backend\",\
             \"test\",\"node_stats\",[],\"notes\",[],\"lost\",[]],[])\n\
             > 14 [0] mon_start(\"m\",\"node\",[\"load1\"],1,\"replace\",1)\n\
             < 14 [0] mon_start(0,\"m\",[\"schema_version\",1,\"time_unix_ns\",\
             1767225600000000000,\"node\",\"node0\",\"backend\",\"test\",\"node_stats\",\
             [],\"notes\",[],\"lost\",[]],[])\n\
             at 1ms\n\
             < 11 [0] print(0,[\"m\",\"replaced\"])"],
        act: Act::Event(|ctx, args| Ok(ask::watch(ctx, args, EventKind::Unsampled))),
        ..BLANK
    },
];
