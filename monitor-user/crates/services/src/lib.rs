//! L4, the services: what can be asked for, a row and a function each, grouped by object.
//!
//! ```text
//!  row     what the service is called, takes, gives and needs: checked before it is called
//!  ctx     what it is given: the session, the ground, the desk, its parameters' objects
//!  kernel  what an action is when the kernel runs it at the event itself
//!  ground  what services act on: processes, the node, acts, happenings (live, or a script)
//!  session what is remembered of a tool on one node: who, which processes, by which numbers
//! ```
//!
//! In: parameters that fit their row. Out: an outcome. To add a service is to write its function
//! and its row, in the file of its object, and nothing else: the manual, the checks and the test
//! of its example follow from the row. Knows no line, no reply and no other node.

// What a service is, and what it is given.
pub mod ctx;
pub mod desk;
pub mod kernel;
pub mod outcome;
pub mod registry;
pub mod requests;
pub mod row;
pub mod session;
pub mod within;
// The services, by object.
pub mod counter;
pub mod diag;
mod disk;
mod event;
mod extension;
pub mod guest;
mod hardware;
mod message;
pub mod monitor;
mod object;
mod print;
mod process;
mod recording;
mod scope;

pub use ctx::Ctx;
pub use desk::Desk;
pub use monitor_event::outcome::{Done, Refusal, Told};
pub use monitor_event::right::Right;
pub use outcome::{Later, Outcome};
pub use registry::Registry;
pub use row::{Act, Class, Flag, Given, Level, Row};
pub use session::Session;

/// Every service that is built in, by object.
pub const GROUPS: &[(&str, &[&[Row]])] = &[
    ("Scope", &[scope::ROWS]),
    (
        "Processes",
        &[
            process::info::ROWS,
            process::hold::ROWS,
            process::inside::ROWS,
            process::register::ROWS,
            process::start::ROWS,
            process::migrate::ROWS,
        ],
    ),
    (
        "Events",
        &[
            event::life::ROWS,
            event::signal::ROWS,
            event::wait::ROWS,
            event::call::ROWS,
            event::hold::ROWS,
            event::errand::ROWS,
            event::migration::ROWS,
        ],
    ),
    ("Messages", &[message::queue::ROWS, message::change::ROWS, message::tag::ROWS]),
    ("Hardware", &[hardware::ROWS]),
    ("Monitor objects", &[object::ROWS]),
    ("Miscellaneous", &[print::ROWS, extension::ROWS, guest::ROWS, recording::ROWS]),
    ("Counters and timers", &[counter::make::ROWS, counter::feed::ROWS, counter::read::ROWS]),
    ("Unusual events", &[diag::row::ROWS]),
    ("Files and disks", &[disk::ROWS]),
    ("Monitors", &[monitor::ROWS, monitor::alarm::ROWS]),
];
