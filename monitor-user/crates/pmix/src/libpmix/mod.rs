//! `libpmix` as a server and as a tool: its C structures, its functions, and those that it calls.
//!
//! Only here are pointers of the library followed.

mod abi;
mod accept;
mod events;
mod functions;
mod heartbeat;
mod library;
mod output;
mod passed;
mod queue;
mod reply;
mod server;
mod server_events;
mod server_module;
mod tool;
mod tool_events;
mod tool_io;
mod values;

pub use accept::{accept_passed, owner_of_peer};
pub use library::{PmixError, check_installed, installed_version};
pub use output::OutputSender;
pub use passed::add_passed;
pub use queue::{send, set_queue};
pub use reply::{Blob, Reply};
pub use server::Server;
pub use tool::Tool;
pub use tool_events::ToolEvent;
pub use tool_io::{InputSender, MOST_INPUT, OutputReceiver};
