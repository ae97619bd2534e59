//! L9, commands.
