//! Services about processes (section 8.1.1), a file for each kind of thing that is done to them.

pub mod info;
