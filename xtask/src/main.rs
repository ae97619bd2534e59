//! `cargo xtask`: the project's own chores.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the terminal")]

mod vm;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["vm", "--kernel", kernel] => vm::run(kernel, "root_"),
        ["vm", "--kernel", kernel, filter] => vm::run(kernel, filter),
        _ => Err("cargo xtask vm --kernel 5.10|6.1|6.12 [FILTER]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
