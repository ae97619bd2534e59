//! Control of real processes: a small target program, `tests/fixture/control/target.c`.

mod bad;
mod breakpoint;
mod call;
mod catch;
mod checkpoint;
mod dump;
mod end;
pub mod group;
mod held;
pub mod killed;
mod killed_any;
mod killed_held;
mod memory;
mod probed;
mod register;
mod service;
mod stack;
mod start;
mod stop;
pub mod target;
mod thread_plan;
mod undo;
mod user;
mod watch;
mod watched;
