//! The program `monitor`: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    monitor::cli::main(std::env::args_os())
}
