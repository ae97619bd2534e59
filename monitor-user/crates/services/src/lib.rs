//! The services, a `ServiceSpec` and a function each, grouped by object; and the request engine.
//!
//! ```text
//!  spec        a service's name, parameters, results and right: checked before it is called
//!  context     what its function gets: session, platform, engine API, processes; its outcome
//!  lower       actions that the kernel runs at the event itself
//!  engine_api  what services need of the engine: stored requests, events, instruments
//!  session     state of a tool on one node: identity, scope, process numbers
//!  requests    the request engine: text to calls, stored requests, events, replies
//! ```
//!
//! In: parameters that fit their specification. Out: an outcome. To add a service, write its
//! function and its specification in the file of its object (of a new file, add the group to
//! `SERVICE_GROUPS`): the manual, the checks and the test of its example follow from it. Then run
//! `cargo xtask docs` for the manual, and the test `golden::language` with `MONITOR_BLESS=1` for
//! `tests/golden/language/services.txt`. Services know no request text, no reply and no other
//! node.

// What a service is, and what its function gets.
pub mod context;
pub mod engine_api;
pub mod lower;
pub mod registry;
pub mod requests;
pub mod session;
pub mod spec;
pub mod timeouts;
// The services, by object.
pub mod counter;
pub mod diag;
mod disk;
pub mod environment;
mod event;
mod extension;
pub mod external_service;
pub mod job;
mod message;
pub mod monitor;
mod node;
mod object;
mod print;
mod process;
mod recording;
mod scope;

pub use context::{CallContext, Outcome, PendingCall};
pub use engine_api::{EnableCall, Enabling, EngineApi};
pub use monitor_event::outcome::{CallResult, EventParam, Refusal};
pub use monitor_event::right::Right;
pub use registry::Registry;
pub use session::Session;
pub use spec::{Class, ErrorSpec, ExecutionLevel, FlagSpec, Handler, ResultSpec, ServiceSpec};

/// All built-in services, by object.
pub const SERVICE_GROUPS: &[(&str, &[&[ServiceSpec]])] = &[
    ("Scope", &[scope::SERVICES]),
    (
        "Processes",
        &[
            process::info::SERVICES,
            process::stop::SERVICES,
            process::memory::SERVICES,
            process::register::SERVICES,
            process::thread::SERVICES,
            process::start::SERVICES,
            process::migrate::SERVICES,
        ],
    ),
    (
        "Events",
        &[
            event::lifecycle::SERVICES,
            event::signal::SERVICES,
            event::scheduling::SERVICES,
            event::call::SERVICES,
            event::stop::SERVICES,
            event::run_control::SERVICES,
            event::catch::SERVICES,
            event::migration::SERVICES,
        ],
    ),
    ("Messages", &[message::queue::SERVICES, message::change::SERVICES, message::tag::SERVICES]),
    ("Hardware", &[node::SERVICES]),
    ("Monitor objects", &[object::SERVICES]),
    (
        "Miscellaneous",
        &[print::SERVICES, extension::SERVICES, external_service::SERVICES, recording::SERVICES],
    ),
    (
        "Counters and timers",
        &[counter::manage::SERVICES, counter::update::SERVICES, counter::read::SERVICES],
    ),
    ("Unusual events", &[diag::spec::SERVICES]),
    ("Files and disks", &[disk::SERVICES]),
    (
        "Parallel jobs",
        &[
            job::SERVICES,
            job::ranks::SERVICES,
            job::act::SERVICES,
            job::calls::SERVICES,
            job::stacks::SERVICES,
            job::attach::SERVICES,
            job::launch::SERVICES,
            job::host::SERVICES,
            job::history::SERVICES,
            job::report::SERVICES,
        ],
    ),
    ("Faults and limits of the node", &[environment::SERVICES]),
    ("Monitors", &[monitor::SERVICES, monitor::alarm::SERVICES]),
];
