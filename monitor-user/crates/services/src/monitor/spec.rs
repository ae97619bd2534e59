//! The services of `mon_` that sample, and those for all monitors.

use super::calls;
use crate::{Handler, ResultSpec, ServiceSpec, spec::param};
use monitor_event::EventKind;
use monitor_omis::param_type::{Param, ParamType};

/// The base of its services.
pub const BLANK: ServiceSpec = ServiceSpec { prefix: "mon_", ..ServiceSpec::BASE };
/// The name of a monitor.
pub const NAME: Param = param("name", ParamType::Text);
const PART: Param = param("part", ParamType::Text);
const FIELDS: Param = param("fields", ParamType::Many(&ParamType::Text));
/// Interval in seconds.
pub const EVERY: Param = param("every", ParamType::Float);
/// Names and values.
pub const OPTIONS: Param = param("options", ParamType::Many(&ParamType::Any));
/// A JSON object as a list.
pub const PAIRS: &str = "{string name; any value}*";
/// The name of a monitor, as it was given or chosen.
pub const MONITOR_NAME: ResultSpec = ResultSpec::new("name", "string");
const SAMPLE: ResultSpec = ResultSpec::new("sample", PAIRS);
const NOTES: ResultSpec = ResultSpec::new("notes", "string*");

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "mon_sample",
        params: &[PART, FIELDS, OPTIONS],
        results: &[SAMPLE, NOTES],
        help: "Reads one sample of `proc`, `node`, `disk`, `net` or `all`, with the named fields \
               (`monitor fields`, or the names of PMIx), all if none is named. Options are names \
               and values as `monitor` of docs/SOCKET.md has them: `targets` (process ids, or \
               `[\"namespace\",\"job\",\"rank\",3]`), `disks`, `nets`, `comms`, `uids`, \
               `cgroups`, `filter`, `group_by`, `keep_ns`, `sort`, `top`, `threads`, \
               `capabilities`, `histograms`, `pmix`. The sample has the names and the structure \
               of the JSON of docs/OUTPUT.md: an object is a list of names and values, and a \
               value that could not be read is absent. The policy of the service determines \
               which processes the tool sees, attached or not. If a named object is missing, the \
               status is \
               `PARTIAL`.",
        examples: &[
            "process 7 comm=a rss_bytes=4096\n\
             > 10 [0] mon_sample(\"proc\",[\"rss_bytes\"],\"targets\",[7])\n\
             < 10 [0] mon_sample(0,[\"schema_version\",1,\"time_unix_ns\",\
             1767225600000000000,\"node\",\"node0\",\"backend\",\"test\",\"processes\",\
             [[\"pid\",7,\"start_time_ns\",1000000000,\"rss_bytes\",4096]],\"notes\",[],\
             \"lost\",[]],[])",
            "> 10 [0] mon_sample(\"proc\",[\"rss_byte\"])\n\
             < 10 [0] mon_sample(105,0,\
             \"unknown field \\\"rss_byte\\\"; did you mean \\\"rss_bytes\\\"?\")\n\
             > 11 [0] mon_sample(\"proc\",[],\"targets\",[9])\n\
             < 11 [0] mon_sample(300,0,\"no process 9\")",
        ],
        handler: Handler::Synchronous(calls::sample),
        ..BLANK
    },
    ServiceSpec {
        name: "mon_start",
        params: &[NAME, PART, FIELDS, EVERY, OPTIONS],
        results: &[MONITOR_NAME, SAMPLE, NOTES],
        help: "Starts a monitor of the tool's own, which samples every `every` seconds; the \
               reply has the first sample, every later one occurs as `mon_sampled`. With an \
               empty name the service chooses one. Options are those of `mon_sample`, and \
               `count` (samples after which it ends), `follow` and `replace`. It ends with the \
               tool's connection, or as described for `mon_ended`.",
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
        handler: Handler::Synchronous(calls::start),
        ..BLANK
    },
    ServiceSpec {
        name: "mon_cancel",
        params: &[NAME],
        results: &[ResultSpec::new("names", "string*")],
        help: "Cancels a monitor of the tool, or of another connection of its user, including \
               heartbeat and file watches; all that the tool has started, if the name is empty. \
               After the reply, none of their samples and alerts occur.",
        examples: &["> 10 [0] mon_start(\"m\",\"node\",[\"load1\"],1); 11 [0] mon_cancel(\"m\")\n\
             < 10 [0] mon_start(0,\"m\",[\"schema_version\",1,\"time_unix_ns\",\
             1767225600000000000,\"node\",\"node0\",\"backend\",\"test\",\"node_stats\",\
             [],\"notes\",[],\"lost\",[]],[]); 11 [0] mon_cancel(0,[\"m\"])\n\
             > 12 [0] mon_cancel(\"m\"); 13 [0] mon_cancel(\"\")\n\
             < 12 [0] mon_cancel(300,0,\
             \"you have no monitor \\\"m\\\"\"); 13 [0] mon_cancel(0,[])"],
        handler: Handler::Synchronous(calls::cancel),
        ..BLANK
    },
    ServiceSpec {
        name: "mon_list",
        results: &[ResultSpec::new("monitors", "{{string name; any value}*}*")],
        help: "Lists the monitors that the tool may see, including those of other connections \
               and of `monitor start`: for each its name (`id`), its user, its requestor and so \
               on, as `list` of docs/SOCKET.md returns them.",
        examples: &["> 10 [0] mon_list()\n< 10 [0] mon_list(0,[])"],
        handler: Handler::Synchronous(|ctx, _| calls::list(ctx)),
        ..BLANK
    },
    ServiceSpec {
        name: "mon_sampled",
        params: &[NAME],
        results: &[
            MONITOR_NAME,
            ResultSpec::new("seq", "integer"),
            ResultSpec::new("missed", "integer"),
            ResultSpec::new("dropped", "integer"),
            SAMPLE,
            NOTES,
        ],
        help: "Occurs with each sample of a monitor that this tool has started, of all of them \
               if the name is empty: its position in the series (the reply was 0), the number of \
               ticks missed since the start, the number of samples dropped since the one before, \
               the sample, and notes that do not fit into it.",
        examples: &["process 7 comm=a\n\
             > 10 [0] mon_sampled(\"\"): 11 [0] print($2,$5)\n\
             < 10 [0] mon_sampled(0)\n\
             > 12 [0] enable(10); 13 [0] mon_start(\"\",\"proc\",[\"comm\"],1)\n\
             < 12 [0] enable(0); 13 [0] mon_start(0,\"monitor-0\",[\"schema_version\",1,\
             \"time_unix_ns\",1767225600000000000,\"node\",\"node0\",\"backend\",\
             \"test\",\"all_visible\",1,\"processes\",[[\"pid\",7,\"start_time_ns\",1000000000,\
             \"comm\",\"a\"]],\"notes\",[],\"lost\",[]],[])\n\
             at 1010ms\n\
             < 11 [0] print(0,[1,[\"schema_version\",1,\"time_unix_ns\",\
             1767225601010000000,\"node\",\"node0\",\"backend\",\"test\",\"interval_ns\",\
             1010000000,\"all_visible\",1,\"processes\",[[\"pid\",7,\"start_time_ns\",1000000000,\
             \"comm\",\"a\"]],\"notes\",[],\"lost\",[]]])"],
        handler: Handler::Event(|ctx, args| Ok(calls::filter(ctx, args, EventKind::Sampled))),
        ..BLANK
    },
    ServiceSpec {
        name: "mon_ended",
        params: &[NAME],
        results: &[
            MONITOR_NAME,
            ResultSpec::new("reason", "string"),
            ResultSpec::new("message", "string"),
        ],
        help: "Occurs when a monitor of this tool has ended by itself: `targets_gone` (its last \
               sample has the final records of the processes), `count`, `failed`, `replaced`, \
               `shutdown`, or `cancelled` by another client.",
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
        handler: Handler::Event(|ctx, args| Ok(calls::filter(ctx, args, EventKind::MonitorEnded))),
        ..BLANK
    },
];
