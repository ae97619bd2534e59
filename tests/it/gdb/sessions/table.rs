//! The sessions, which are text: `tests/fixture/gdb/sessions`.
//!
//! ```text
//! ## its name
//! program system calls     the program, of `programs`, and its arguments
//! > continue               what gdb executes; {pid} is the process id, ATTACH attaches again
//! < call to syscall read   text that the transcript has
//! ```
//!
//! In: the files. Out: sessions in the order of their names' files. Text before the first name is a
//! comment.

use std::path::Path;

/// A session, after which the program ends.
pub struct Session {
    /// Its name.
    pub name: String,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: String,
    /// What gdb executes, a command a line.
    pub script: String,
    /// Text that the transcript has.
    pub shown: Vec<String>,
}

/// All sessions.
pub fn sessions() -> Vec<Session> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixture/gdb/sessions");
    let mut files: Vec<_> =
        std::fs::read_dir(Path::new(folder)).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| parsed(&std::fs::read_to_string(file).unwrap())).collect()
}

fn parsed(text: &str) -> Vec<Session> {
    text.split("\n## ").skip(1).map(session).collect()
}

fn session(text: &str) -> Session {
    let (name, lines) = text.split_once('\n').unwrap_or((text, ""));
    let (first, rest) = lines.split_once('\n').unwrap_or((lines, ""));
    let program = first.strip_prefix("program ").unwrap_or_else(|| panic!("{name}: no program"));
    let (program, arguments) = program.split_once(' ').unwrap_or((program, ""));
    let mut session = Session {
        name: name.to_owned(),
        program: program.to_owned(),
        arguments: arguments.to_owned(),
        script: String::new(),
        shown: Vec::new(),
    };
    for line in rest.lines().filter(|it| !it.is_empty()) {
        match line.split_once(' ') {
            Some((">", command)) => session.script.extend([command, "\n"]),
            Some(("<", shown)) => session.shown.push(shown.to_owned()),
            _ => panic!("{name}: {line}"),
        }
    }
    session
}
