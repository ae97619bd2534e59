//! The services of `mon_` that watch heartbeats and file changes, and `mon_register`.

use super::calls;
use super::spec::{BLANK, EVERY, MONITOR_NAME, NAME, OPTIONS, PAIRS};
use crate::{Handler, ResultSpec, ServiceSpec, spec::param};
use monitor_event::EventKind;
use monitor_omis::param_type::ParamType;

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "mon_heartbeat",
        params: &[NAME, EVERY, OPTIONS],
        results: &[MONITOR_NAME],
        help: "Watches that a process sends a heartbeat in every window of `every` seconds, from \
               now on: the process of the tool, by `mon_beat` or `beat` of docs/SOCKET.md, or \
               with `pid` another process of its user (of any user, for root), by its own \
               heartbeats. When more than `drops` windows in a row (0) have passed without a \
               heartbeat, `mon_alerted` occurs: once until a heartbeat arrives, or with each \
               further window if `repeat` is 1. `code` is the number that it carries, -109 as in \
               PMIx if absent; with `range` `\"user\"` it goes to all connections of the user to \
               the monitors, which a tool has from its first request of `mon_` on. With an empty \
               name the service chooses one; `replace` 1 replaces a monitor of the same name. It \
               ends with the tool's connection; if something else ends it, `mon_ended` occurs.",
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
             < 11 [0] mon_heartbeat(105,0,\"every 0.0: expected seconds, more than 0\")",
        ],
        handler: Handler::Synchronous(calls::heartbeat),
        ..BLANK
    },
    ServiceSpec {
        name: "mon_beat",
        help: "Sends a heartbeat of the tool's process; it counts for all watches of the \
               process, also those of other tools and of clients of the socket.",
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
        handler: Handler::Manipulation(|ctx, _| calls::send_heartbeat(ctx)),
        ..BLANK
    },
    ServiceSpec {
        name: "mon_file",
        params: &[NAME, param("path", ParamType::Text), EVERY, OPTIONS],
        results: &[MONITOR_NAME],
        help: "Watches that a file changes, by checking it every `every` seconds with the rights \
               of the tool's user; the first check gives the reply, and the others are compared \
               with it. At least one criterion is set: `size`, `access`, `modify` (1). When \
               `drops` checks in a row (1) have found no change, or no file where there was one, \
               `mon_alerted` occurs: once until it changes, or with each further check if \
               `repeat` is 1. A file that does not exist yet is waited for. `code`, -110 as in \
               PMIx if absent, an empty name and `replace` are as in `mon_heartbeat`.",
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
             < 10 [0] mon_file(105,0,\"path \\\"log\\\": expected an absolute path\")\n\
             > 11 [0] mon_file(\"log\",\"/log\",1)\n\
             < 11 [0] mon_file(105,0,\"file: set at least one of size, access and modify\")",
        ],
        handler: Handler::Synchronous(calls::file),
        ..BLANK
    },
    ServiceSpec {
        name: "mon_alerted",
        params: &[NAME],
        results: &[
            MONITOR_NAME,
            ResultSpec::new("seq", "integer"),
            ResultSpec::new("code", "integer"),
            ResultSpec::new("kind", "string"),
            ResultSpec::new("alert", PAIRS),
        ],
        help: "Occurs when a heartbeat or a file change that this tool watches is late, and when \
               another tool of its user has set the range `\"user\"`; of all watches if the name \
               is empty. Its parameters are the name, the number of alerts of it so far, its \
               code, its kind, `heartbeat` or `file`, and the values of docs/SOCKET.md for that \
               kind: `pid`, `missed_windows`, `late_ns` since the last heartbeat and `beats`; or \
               `path`, `unchanged` (checks in a row), `missing` and `size`. Alerts are never \
               dropped.",
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
        handler: Handler::Event(|ctx, args| Ok(calls::filter(ctx, args, EventKind::Alerted))),
        ..BLANK
    },
    ServiceSpec {
        name: "mon_register",
        params: &[param("namespace", ParamType::Text), param("rank", ParamType::Integer), OPTIONS],
        results: &[
            ResultSpec::new("namespace", "string"),
            ResultSpec::new("rank", "integer"),
            ResultSpec::new("pid", "integer"),
        ],
        help: "Registers a process as a rank of a parallel job, where its environment does not \
               show it: the process of the tool, or with `pid` another of its user (of any user, \
               for root). From the reply on, targets that name the rank mean this process, for \
               all users; a second registration of the same process replaces the first.",
        examples: &["process 7 comm=a\n\
             > 10 [0] mon_register(\"job\",3,\"pid\",7)\n\
             < 10 [0] mon_register(0,\"job\",3,7)\n\
             > 11 [0] mon_sample(\"proc\",[\"comm\"],\"targets\",[[\"namespace\",\"job\",\
             \"rank\",3]])\n\
             < 11 [0] mon_sample(0,[\"schema_version\",1,\"time_unix_ns\",\
             1767225600000000000,\"node\",\"node0\",\"backend\",\"test\",\"processes\",\
             [[\"pid\",7,\"start_time_ns\",1000000000,\"comm\",\"a\"]],\"notes\",[],\
             \"lost\",[]],[])"],
        handler: Handler::Synchronous(calls::register),
        ..BLANK
    },
];
