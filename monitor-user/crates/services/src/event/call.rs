//! Calls of library functions: `start_lib_call`, `end_lib_call`; and messages as they arrive.
//!
//! What a call tells follows the description of its library (docs/DESCRIPTIONS.md).

use super::on;
use crate::ctx::Ctx;
use crate::row::{Act, Given, Level, Row};
use monitor_event::occurrence::{Predicate, EventKind, EventFilter};
use monitor_event::outcome::Refusal;
use monitor_event::right::Right;
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_omis::kind::{Kind, Param};
use monitor_omis::{Status, Value};

const TID: Given = Given { name: "tid", kind: "integer" };
const TAKES: &[Param] = &[
    Param { name: "tid_list", kind: Kind::Many(&Kind::Process) },
    Param { name: "lib_call_name", kind: Kind::Text },
];

/// The services.
pub const ROWS: &[Row] = &[
    Row {
        name: "start_lib_call",
        takes: TAKES,
        gives: &[TID, Given::ANY],
        right: Right::Control,
        level: Level::Kernel,
        help: "Occurs when one of the processes has called a library function, or one of its \
               own, and not yet done anything in it. The name may be that of the function, or \
               LIBRARY:FUNCTION@VERSION, or FILE:0xOFFSET; `f|g` is any of several. `$2` and so \
               on are what goes in, in the order of the description of the library \
               (docs/DESCRIPTIONS.md); of a function that nobody has described only the process \
               is told. A value that could not be read is an empty list. A LIBRARY that a process \
               has not loaded yet may be named: it tells from when it is loaded, or a program with \
               it executed, on; calls in the first milliseconds may be missed.",
        examples: &["process 7\nattach 7\ncallable 7 pvm_send\n\
                     > 10 [0] start_lib_call([7],\"pvm_send\"): 11 [0] print([$1,$2,$3])\n\
                     < 10 [0] start_lib_call(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms call 7 pvm_send 262147 100\n< 11 [0] print(0,[7,262147,100])"],
        act: Act::Event(|ctx, args| call(ctx, args, Edge::Start)),
        ..Row::BLANK
    },
    Row {
        name: "end_lib_call",
        takes: TAKES,
        gives: &[TID, Given::ANY],
        right: Right::Control,
        level: Level::Kernel,
        help: "Occurs when a library function, named as in `start_lib_call`, has returned in one \
               of the processes. `$2` and so on are its result, the error number where it has \
               one (0 if it did not fail), and what it wrote, in the order of the description. A \
               call that is left by longjmp or the end of its thread does not return.",
        examples: &["process 7\nattach 7\ncallable 7 pvm_send\n\
                     > 10 [0] end_lib_call([7],\"pvm_send\"): 11 [0] print([$1,$2])\n\
                     < 10 [0] end_lib_call(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms return 7 pvm_send -2\n< 11 [0] print(0,[7,-2])"],
        act: Act::Event(|ctx, args| call(ctx, args, Edge::End)),
        ..Row::BLANK
    },
    Row {
        name: "message_arrived",
        takes: &[Param { name: "tid_list", kind: Kind::Many(&Kind::Process) }],
        gives: &[
            TID,
            Given { name: "sender", kind: "integer" },
            Given { name: "msgtag", kind: "integer" },
            Given { name: "size", kind: "integer" },
        ],
        right: Right::Control,
        level: Level::Kernel,
        help: "Occurs when the library of PVM 3.4 has put a message into the queue of one of the \
               processes, or a transport of Open MPI 4 has handed one to its matching (pml/ob1). \
               `sender` is a task of PVM, or a rank in the communicator of the message. Of other \
               libraries it is refused: what arrives there is seen as it is received, see \
               `end_lib_call`. Of queues of the system too: it would take a program at every \
               system call.",
        examples: &["process 7\nattach 7\n\
                     callable 7 mesg_input|mca_pml_ob1_recv_frag_callback_match|\
                     mca_pml_ob1_recv_frag_callback_rndv|mca_pml_ob1_recv_frag_callback_rget\n\
                     > 10 [0] message_arrived([7]): 11 [0] print([$1,$2,$3,$4])\n\
                     < 10 [0] message_arrived(0)\n> 12 [0] enable(10)\n< 12 [0] enable(0)\n\
                     at 1ms call 7 mesg_input|mca_pml_ob1_recv_frag_callback_match|\
                     mca_pml_ob1_recv_frag_callback_rndv|mca_pml_ob1_recv_frag_callback_rget \
                     262147 100 4\n< 11 [0] print(0,[7,262147,100,4])"],
        act: Act::Event(arrived),
        ..Row::BLANK
    },
];

/// Where every message comes by: of PVM, and of Open MPI by the way in which it was sent.
const ARRIVALS: &str = "mesg_input|mca_pml_ob1_recv_frag_callback_match|\
                        mca_pml_ob1_recv_frag_callback_rndv|mca_pml_ob1_recv_frag_callback_rget";
/// Who sends what the library of PVM and its daemon say to each other.
const DAEMON: i64 = -2_147_483_648;

fn call(ctx: &mut Ctx<'_>, args: &[Value], edge: Edge) -> Result<EventFilter, Refusal> {
    let [list, name] = args else { unreachable!("the row takes two parameters") };
    let Value::Text(name) = name else { unreachable!("the row takes a string") };
    let tap = Tap { name: name.to_str_lossy().into_owned(), edge };
    tapped(ctx, list, &tap, EventKind::Called(tap.clone()), None)
}

fn arrived(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<EventFilter, Refusal> {
    let tap = Tap { name: ARRIVALS.to_owned(), edge: Edge::Start };
    // What libraries say to themselves comes from a daemon, or has a tag below zero.
    let check = Predicate::All(vec![Predicate::Not(1, Value::from(DAEMON)), Predicate::AtLeast(2, 0)]);
    let watch = tapped(ctx, &args[0], &tap, EventKind::Called(tap.clone()), Some(check));
    watch.map_err(|why| only_in("messages are seen to arrive in PVM 3.4 and Open MPI 4 alone", why))
}

/// A function that only one library has is missing.
pub(crate) fn only_in(what: &str, why: Refusal) -> Refusal {
    match why.status {
        Status::NO_SUCH_OBJECT => {
            Refusal::new(Status::UNSUPPORTED, format!("{what}: {}", why.text))
        }
        _ => why,
    }
}

/// A watch on a function that each of the processes has. One that is attached later, or loads a
/// library later, may get it yet.
pub(crate) fn tapped(
    ctx: &mut Ctx<'_>,
    list: &Value,
    tap: &Tap,
    topic: EventKind,
    check: Option<Predicate>,
) -> Result<EventFilter, Refusal> {
    let chosen = ctx.processes(list)?;
    let mut refused = None;
    let mut n_found = 0;
    for it in &chosen.served {
        match ctx.ground.has(tap, it.id) {
            Ok(()) => n_found += 1,
            // Of several some may be other programs.
            Err(why) if why.status == Status::NO_SUCH_OBJECT => refused = Some(why),
            Err(why) => return Err(why),
        }
    }
    match refused {
        Some(why) if n_found == 0 => Err(why),
        _ => on(ctx, list, topic, check),
    }
}
