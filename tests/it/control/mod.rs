//! Acts on real processes: a small program of our own, `tests/fixture/control/target.c`.

mod bad;
mod breakpoint;
mod call;
mod checkpoint;
mod dump;
mod guardian;
mod held;
mod memory;
mod register;
mod service;
mod stack;
mod start;
mod stop;
mod target;
mod thread_plan;
mod user;
mod watch;
