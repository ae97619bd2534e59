//! What tests and benches of many nodes share: light agents, and servers that can be lost.
//!
//! An agent runs the code of a node over a connection of its own, as a task of one process; what it
//! executes is its payload. Only a daemon around it is missing. The floor is the same traffic by a
//! program that has the client library alone.

mod agent;
mod floor;
mod partition;
mod random;
mod recorded_bus;
mod rows;
mod servers;
mod site;

pub use agent::{Agent, AgentCall, AgentOptions, AgentView};
pub use floor::{FloorCaller, FloorNode, command_bytes, reply_bytes};
pub use partition::Partition;
pub use random::Random;
pub use recorded_bus::{AgentLog, OrderMark};
pub use rows::{AgentRow, AgentRows};
pub use servers::{ServerProcess, has_server, own_address, server_program};
pub use site::{TestSite, bus_event};
