//! Parallel jobs as data: discovery, the process table, profiles, and directives on environments.
//!
//! ```text
//!  processes with their ranks (sampling) -> discovery: jobs, their launchers and ranks
//!  a job and rates -> rank_table: a row for each rank; straggler: distance from the median
//!  text of a user -> find: the job that an id, a prefix or a pid names; rank_set: some ranks
//!  call stacks of ranks -> stack_tree: one tree; stack_class: ranks that are at one place
//!  jobs of two readings -> job_log: what changed, and what changed before
//!  sums of calls of MPI -> call_profile: rows by rank, function and place; call_join: of several
//!  nodes; mpi_name: its names
//!  hold_table: where the ranks of a runtime can be held; rank_label: the rank of a line of output
//!  directives (directive) and an environment -> envar: steps, and what the environment becomes
//! ```
//!
//! Pure: reads no file, has no clock, and prints nothing. The readers of samples and environments
//! are in `backends` and `sampling`.

pub mod call_join;
pub mod call_profile;
pub mod directive;
pub mod discovery;
pub mod envar;
pub mod find;
pub mod hold_table;
pub mod job_log;
pub mod launch_method;
pub mod mpi_datatype;
pub mod mpi_name;
pub mod rank_label;
pub mod rank_set;
pub mod rank_table;
pub mod runtime;
pub mod stack_class;
pub mod stack_tree;
pub mod straggler;

pub use discovery::{JobState, ParallelJob, RankProcesses, discover};
pub use find::{FindError, find, find_named, find_ranks};
pub use rank_set::RankSet;
pub use rank_table::{RankRow, RankTable, rank_table};
pub use runtime::Runtime;
