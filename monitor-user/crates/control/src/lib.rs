//! Process control: stops, tracing, breakpoints, memory, registers, checkpoints, launching.
//!
//! ```text
//!  daemon                                     | user worker: a process of the requester's user
//!  user_worker::proxy --- frames on a socket --> user_worker::main -> Executor -> stop, trace, ...
//!    keeps an undo log, in case it dies       |   undoes everything when the socket closes
//! ```
//!
//! In: requests, each on a process named by pid and start time. Out: replies, and later events of
//! traced threads. The kernel decides about permissions: a user worker runs as its user. This crate
//! knows nothing of the request language, of services or of sampling.

// Messages and errors.
pub mod error;
pub mod messages;
// Conditions of breakpoints.
pub mod agent_expression;
// Targets, reasons of stops, deadlines.
mod deadline;
mod event_pos;
pub mod process_ref;
mod stop_reason;
// Operations.
pub mod call_questions;
pub mod call_stacks;
pub mod checkpoint;
mod executor;
mod file_query;
pub mod held_launch;
mod loaded_elf;
mod loader;
mod machine;
pub mod memory;
pub mod message_queue;
mod signal;
mod start;
mod stop;
pub mod stop_all;
pub mod stopped_batch;
mod trace;
mod unwind;
mod uprobe_patches;
// Ranks of parallel jobs.
pub mod host_protocol;
pub mod host_socket;
pub mod job_command;
pub mod job_folder;
pub mod rank_calls;
pub mod rank_program;
pub mod rank_stacks;
pub mod stack_looks;
pub mod stack_rows;
pub mod step_cgroup;
pub mod tool_daemon;
// Processes that are started in a group, and their output.
mod forwarded_output;
pub mod grouped_process;
pub mod launcher_output;
pub mod output_log;
pub mod terminal_input;
pub mod waker_list;
// Sessions of a program, launched for a tool.
pub mod session;
// Processes that carry them out.
pub mod user_worker;

pub use error::ControlError;
pub use executor::Executor;
pub use machine::{Changes, FrameStore, PROBED_FLAGS, PROBED_PC, PROBED_SP};
pub use message_queue::{QueueAnswer, QueueContent, QueueDetail, QueueQuery, QueuedMessage};
pub use messages::{
    BeforeInstruction, BreakpointMeans, BreakpointProbe, CodePos, DaemonSpec, DumpLocation,
    FileQuery, FoundInFiles, FrameNames, LaunchSpec, LoadedImage, NumberedRequest, Patch,
    ProbeLocation, ProbeUse, RegisterSet, RequestTag, StackFrame, StartedDaemon, StopMethod,
    ThreadEntry, ToolId, WorkerEvent, WorkerEventKind, WorkerReply, WorkerRequest,
};
pub use monitor_event::thread::{AgentExpression, Argument, CallEnd, Catch, Target};
pub use stopped_batch::{StoppedBatch, StoppedOperand, StoppedStep};
pub use user_worker::UserWorker;
