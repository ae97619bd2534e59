//! What every process of a node uses, and what happens to it.
//!
//! ```text
//!  cli      L9   commands
//!  daemon   L8   the service: its loop, its thread that reads, its configuration
//!  serve    L7   doors: connections, who they are, what waits for them; the screen
//!  client   L7   the other end of a door
//!  cluster  L6   the same of many nodes
//!  engine   L5   monitors: calls in, answers and events out; requests in, replies out
//!  service  L4   what can be asked for: a row and a function each
//!  probe    L3   where to put a probe on code, and what a call means
//!  record   L3   samples in a file, and back
//!  meter    L3   when to read, which rows to show
//!  backend  L2   eBPF, /proc, canned values: `Sample`
//!  control  L2   processes under our hand: stopped, steered, looked into
//!  format   L1   `Rates` as table, CSV, JSON, Prometheus
//!  wire     L1   calls, answers and events as lines
//!  omis     L1   the request language: text to data and back
//!  sys      L1   system calls
//!  model    L0   fields, samples, rates
//! ```

// L0: pure.
pub mod model;
// L1: text out, lines in and out, the request language; system calls the libraries lack.
pub mod format;
pub mod omis;
pub mod sys;
pub mod wire;
// L2: who reads.
pub mod backend;
// L2: who acts.
pub mod control;
// L3: when to read, which rows to show, and what it adds up to; recordings.
pub mod meter;
pub mod record;
// Events and actions as data.
pub mod event;
// L3: where a probe on code may stand, and what a call means.
pub mod probe;
// L4: what can be asked for.
pub mod service;
// L5: monitors and requests.
pub mod engine;
// L6: many nodes.
pub mod cluster;
// L7: the two ends of a door.
pub mod client;
pub mod serve;
// L8: the service.
pub mod daemon;
// L9: commands.
pub mod cli;
