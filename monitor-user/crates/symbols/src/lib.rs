//! Symbols: where to probe code, and what the arguments of a call mean.
//!
//! ```text
//!  "pvm_send" -> function_spec -> resolve -> elf (symbols, unwind tables) -> function
//!   a process -> mapped_files -> object_file -^      -> instruction -> site: ProbeSite
//! ```
//!
//! In: a process or a file, and the name of a function. Out: sites where a probe is harmless, or
//! why there is none; signatures of library functions. Attaches nothing: backends do.

// Files and memory.
pub mod elf;
pub mod error;
pub mod held_file;
pub mod library_closure;
pub mod mapped_files;
pub mod memory;
pub mod object_file;
pub mod report;
// Code.
pub mod ends;
pub mod function;
pub mod instruction;
pub mod site;
// From names to sites.
pub mod calls;
pub mod diag_probes;
mod errno;
pub mod function_spec;
pub mod library_calls;
pub mod resolve;
// Signatures of library functions.
pub mod signatures;

pub use ends::FunctionEnds;
pub use error::SymbolError;
pub use function_spec::FunctionSpec;
pub use site::ProbeSite;
