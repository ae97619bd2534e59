//! The services of `mon_` for what should happen in time: beats, changes of files; and who is
//! which rank.

use super::ask;
use super::row::{BLANK, EVERY, GIVEN_NAME, NAME, OPTIONS, PAIRS};
use crate::outcome::outcome;
use crate::row::{Act, Given, Row};
use monitor_event::occurrence::EventKind;
use monitor_omis::kind::{Kind, Param};

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "mon_heartbeat",
        takes: &[NAME, EVERY, OPTIONS],
        gives: &[GIVEN_NAME],
        help: "Watches that a process beats in every window of so many seconds, from now on: the \
               process of the tool, by `mon_beat` or `beat` of docs/SOCKET.md, or with `pid` \
               another of its user (of anybody, for root), by its own. When more than `drops` \
               windows in a row (0) have passed without a beat, `mon_alerted` occurs: once until \
               a beat comes, or with each further window if `repeat` is 1. `code` is the number \
               that it carries, -109 as in PMIx if absent; with `range` `\"user\"` it is told to \
               everybody of the user who is connected to the monitors, which a tool is from its \
               first request of `mon_` on. An empty name lets the service find one, `replace` 1 \
               takes the place of a monitor of that name. It ends with the tool's connection, \
               and `mon_ended` tells who else ended it.",
        examples: &[
            "> 10 [0] mon_alerted(\"alive\"): 11 [0] print($2,$3,$4,$5)\n\
             < 10 [0] mon_alerted(0)\n\
             > 12 [0] enable(10); 13 [0] mon_heartbeat(\"alive\",0.5,\"drops\",1)\n\
             < 12 [0] enable(0); 13 [0] mon_heartbeat(0,\"alive\")\n\
             at 510ms\n\
             at 1010ms\n\
             < 11 [0] print(0,[1,-109,\"heartbeat\",[\"pid\",1,\"missed_windows\",2,\
             \"late_ns\",1010000000,\"beats\",0]])\n\
             at 1510ms",
            "process 7\n\
             > 10 [0] mon_heartbeat(\"\",1,\"pid\",7)\n\
             < 10 [0] mon_heartbeat(0,\"monitor-1\")\n\
             > 11 [0] mon_heartbeat(\"alive\",0)\n\
             < 11 [0] mon_heartbeat(105,0,\"every 0.0: wanted seconds, more than 0\")",
        ],
        act: Act::Synchronous(|ctx, args| outcome(ask::heartbeat(ctx, args))),
        ..BLANK
    },
    Row {
        name: "mon_beat",
        help: "The process of the tool lives; all who watch it know, other tools and clients of \
               the socket too.",
        examples: &["> 10 [0] mon_alerted(\"\"): 11 [0] print($1,$5)\n\
             < 10 [0] mon_alerted(0)\n\
             > 12 [0] enable(10); 13 [0] mon_heartbeat(\"alive\",0.5)\n\
             < 12 [0] enable(0); 13 [0] mon_heartbeat(0,\"alive\")\n\
             at 400ms\n\
             > 14 [0] mon_beat()\n\
             < 14 [0] mon_beat(0)\n\
             at 510ms\n\
             at 1010ms\n\
             < 11 [0] print(0,[\"alive\",[\"pid\",1,\"missed_windows\",1,\"late_ns\",610000000,\
             \"beats\",1]])"],
        act: Act::Manipulation(|ctx, _| outcome(ask::beat(ctx))),
        ..BLANK
    },
    Row {
        name: "mon_file",
        takes: &[NAME, Param { name: "path", kind: Kind::Text }, EVERY, OPTIONS],
        gives: &[GIVEN_NAME],
        help: "Watches that a file changes, by a look every so many seconds with the rights of \
               the tool's user; the first look is the reply, and what the others are compared \
               with. What counts is said: `size`, `access`, `modify` (1), at least one. When \
               `drops` looks in a row (1) have found nothing changed, or no file where there was \
               one, `mon_alerted` occurs: once until it changes, or with each further look if \
               `repeat` is 1. A file that is not there yet is waited for. `code`, -110 as in PMIx \
               if absent, an empty name and `replace` are as in `mon_heartbeat`.",
        examples: &[
            "file /log 5\n\
             > 10 [0] mon_alerted(\"log\"): 11 [0] print($2,$3,$4,$5)\n\
             < 10 [0] mon_alerted(0)\n\
             > 12 [0] enable(10); 13 [0] mon_file(\"log\",\"/log\",0.5,\"size\",1)\n\
             < 12 [0] enable(0); 13 [0] mon_file(0,\"log\")\n\
             at 400ms file /log 6\n\
             at 510ms\n\
             at 1010ms\n\
             < 11 [0] print(0,[1,-110,\"file\",[\"path\",\"/log\",\"unchanged\",1,\"size\",6]])\n\
             at 1400ms file /log\n\
             at 1510ms\n\
             < 11 [0] print(0,[2,-110,\"file\",[\"path\",\"/log\",\"unchanged\",1,\
             \"missing\",1]])",
            "> 10 [0] mon_file(\"log\",\"log\",1,\"size\",1)\n\
             < 10 [0] mon_file(105,0,\"path \\\"log\\\": the full path of a file\")\n\
             > 11 [0] mon_file(\"log\",\"/log\",1)\n\
             < 11 [0] mon_file(105,0,\"file: say what counts: size, access or modify\")",
        ],
        act: Act::Synchronous(|ctx, args| outcome(ask::file(ctx, args))),
        ..BLANK
    },
    Row {
        name: "mon_alerted",
        takes: &[NAME],
        gives: &[
            GIVEN_NAME,
            Given { name: "seq", kind: "integer" },
            Given { name: "code", kind: "integer" },
            Given { name: "kind", kind: "string" },
            Given { name: "alert", kind: PAIRS },
        ],
        help: "Occurs when a beat or a change of a file that this tool watches has not come in \
               time, and when another tool of its user let everybody be told; of all of them if \
               the name is empty. It tells the name, how many alerts of it there were, its code, \
               its kind, `heartbeat` or `file`, and what docs/SOCKET.md has of that: `pid`, \
               `missed_windows`, `late_ns` since the last beat and `beats`; or `path`, \
               `unchanged` (looks in a row), `missing` and `size`. None is ever dropped.",
        examples: &["file /log 5\n\
             > 10 [0] mon_alerted(\"\"): 11 [0] print($1,$4)\n\
             < 10 [0] mon_alerted(0)\n\
             > 12 [0] enable(10); 13 [0] mon_heartbeat(\"alive\",1)\n\
             < 12 [0] enable(0); 13 [0] mon_heartbeat(0,\"alive\")\n\
             > 14 [0] mon_file(\"log\",\"/log\",1,\"modify\",1)\n\
             < 14 [0] mon_file(0,\"log\")\n\
             at 1010ms\n\
             < 11 [0] print(0,[\"alive\",\"heartbeat\"])\n\
             < 11 [0] print(0,[\"log\",\"file\"])"],
        act: Act::Event(|ctx, args| Ok(ask::watch(ctx, args, EventKind::Alerted))),
        ..BLANK
    },
    Row {
        name: "mon_register",
        takes: &[
            Param { name: "namespace", kind: Kind::Text },
            Param { name: "rank", kind: Kind::Integer },
            OPTIONS,
        ],
        gives: &[
            Given { name: "namespace", kind: "string" },
            Given { name: "rank", kind: "integer" },
            Given { name: "pid", kind: "integer" },
        ],
        help: "Says that a process is a rank of a parallel job, where its environment does not \
               say so: the process of the tool, or with `pid` another of its user (of anybody, \
               for root). From the reply on, targets that name the rank mean it, for everybody; \
               a second time for the same process takes the place of the first.",
        examples: &["process 7 comm=a\n\
             > 10 [0] mon_register(\"job\",3,\"pid\",7)\n\
             < 10 [0] mon_register(0,\"job\",3,7)\n\
             > 11 [0] mon_sample(\"proc\",[\"comm\"],\"targets\",[[\"namespace\",\"job\",\
             \"rank\",3]])\n\
             < 11 [0] mon_sample(0,[\"schema_version\",1,\"time_unix_ns\",\
             1767225600000000000,\"node\",\"node0\",\"backend\",\"test\",\"processes\",\
             [[\"pid\",7,\"start_time_ns\",1000000000,\"comm\",\"a\"]],\"notes\",[],\
             \"lost\",[]],[])"],
        act: Act::Synchronous(|ctx, args| outcome(ask::register(ctx, args))),
        ..BLANK
    },
];
