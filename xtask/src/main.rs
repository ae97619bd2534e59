//! `cargo xtask`: the project's own chores.
//!
//! In: the name of a chore and its options. Out: exit status 0, 1 (the chore failed) or 2 (usage).
//! A chore is one file and one row of `CHORES`; this file only finds the row.
//! No argument parser: a chore takes at most one word, and every build waits for this program.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the terminal")]

mod bench;
mod build_ebpf;
mod ci;
mod dist;
mod docs;
mod harness;
mod pictures;
mod step;
mod test;
mod tidy;
mod verdict;
mod vm;
mod workspace;

use std::process::ExitCode;

/// What a chore says when it fails: what happened, why, and what to do; empty if it has said it.
type Outcome = Result<(), String>;

/// One chore: its row in the help and what it does.
struct Chore {
    name: &'static str,
    /// The options it understands.
    takes: &'static [&'static str],
    help: &'static str,
    run: fn(option: Option<&str>) -> Outcome,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "build-ebpf",
        takes: &["--setup", "--check"],
        help: "Build the BPF objects; --setup installs the toolchain, --check only compares",
        run: build_ebpf::run,
    },
    Chore {
        name: "test",
        takes: &[],
        help: "Run every test; as root, the tests on the real kernel too",
        run: test::run,
    },
    Chore {
        name: "ci",
        takes: &[],
        help: "Run every check and print all failures at the end",
        run: ci::run,
    },
    Chore {
        name: "tidy",
        takes: &[],
        help: "Check layers, homes of crates, sizes, and other rules of docs/STYLE.md",
        run: tidy::run,
    },
    Chore {
        name: "vm",
        takes: &["--kernel=5.10", "--kernel=6.1", "--kernel=6.12"],
        help: "Run the tests on the real kernel under QEMU, on this kernel or on each",
        run: vm::run,
    },
    Chore {
        name: "bench",
        takes: bench::NAMES,
        help: "Measure what the monitor costs, all of it or one part, beside what others cost",
        run: bench::run,
    },
    Chore {
        name: "dist",
        takes: &["--check"],
        help: "Make the Debian package and the static program; --check installs and removes them",
        run: dist::run,
    },
    Chore {
        name: "docs",
        takes: &["--check"],
        help: "Write the generated pages; --check only follows the links of all pages",
        run: docs::run,
    },
    Chore {
        name: "pictures",
        takes: &[],
        help: "Take the pictures in docs/pictures anew, from real runs; as root, with Chromium",
        run: pictures::run,
    },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, option) = match words[..] {
        [] | ["help" | "--help" | "-h"] => {
            print!("{}", help());
            return ExitCode::SUCCESS;
        }
        [name] => (name, None),
        [name, option] => (name, Some(option.to_owned())),
        [name, option, value] => (name, Some(format!("{option}={value}"))),
        _ => return usage("a chore takes at most one option"),
    };
    let option = option.as_deref();
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        return usage(&format!("there is no chore `{name}`"));
    };
    if option.is_some_and(|option| !chore.takes.contains(&option)) {
        return usage(&format!("`{name}` takes {:?}", chore.takes));
    }
    match (chore.run)(option) {
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
    let mut text = String::from("cargo xtask CHORE [OPTION]\n\n");
    for Chore { name, takes, help, .. } in CHORES {
        let options = takes.iter().map(|option| format!(" [{option}]")).collect::<String>();
        text += &format!("  {name}{options}\n      {help}\n");
    }
    text
}
