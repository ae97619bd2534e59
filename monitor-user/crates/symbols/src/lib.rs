//! L3, where to put a probe on code, and what a call means.
//!
//! ```text
//!  "pvm_send" -> wanted -> find -> elf (names, unwind tables) -> function -> instruction -> Site
//!   a process -> mapped -> opened -^
//! ```
//!
//! In: a process or a file, and what people call a place in it. Out: sites that do no harm, or
//! why there is none. Attaches nothing; the programs that do are the backend's.

// Files.
pub mod elf;
pub mod error;
pub mod mapped;
pub mod memory;
pub mod opened;
// Code.
pub mod function;
pub mod instruction;
pub mod site;
// From names to sites.
pub mod find;
pub mod unusual;
pub mod wanted;
// What calls mean, and the messages that they leave in a process.
pub mod description;
// Calls as they happen.

pub use error::Error;
pub use site::Site;
pub use wanted::Wanted;
