//! Services about messages (OMIS 1.0, section 8.1.2): received ones that wait in a process, and the
//! one that it is about to send.

pub mod change;
pub mod queue;
pub mod tag;
