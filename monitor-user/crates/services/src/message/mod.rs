//! Services about messages (section 8.1.2): those that wait in a process, and the one it sends.

pub mod change;
pub mod queue;
pub mod tag;
