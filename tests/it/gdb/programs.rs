//! The programs that are debugged, of `tests/fixture/gdb`, built once.
//!
//! In: the name of a program. Out: its folder, with the program and its libraries, as a debugger
//! needs them. A compiler that is missing is an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The commands that build each program, in the folder of the sources; `OUT` is its own folder.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("debuggee", &["cc -g -O0 -fno-omit-frame-pointer -pthread debuggee.c -o OUT/debuggee"]),
    ("small", &["cc -g -O0 -pthread small.c -o OUT/small"]),
    ("static", &["cc -g -O0 -static stack.c -o OUT/static"]),
    ("static-pie", &["cc -g -O0 -static-pie stack.c -o OUT/static-pie"]),
    ("no-pie", &["cc -g -O0 -no-pie -fno-pie stack.c -o OUT/no-pie"]),
    ("stack", &["cc -g -O0 stack.c -o OUT/stack"]),
    ("optimised", &["cc -g -O2 stack.c -o OUT/optimised"]),
    ("throws", &["c++ -g -O0 throws.cpp -o OUT/throws"]),
    ("rust", &["rustc -g --edition 2021 values.rs -o OUT/rust"]),
    ("go", &["go build -gcflags=all=-N -o OUT/go values.go"]),
    (
        "loads",
        &[
            "cc -g -O0 -shared -fPIC locals_later.c -o OUT/locals_later.so",
            "cc -g -O0 loads.c -o OUT/loads",
        ],
    ),
    ("system", &["cc -g -O0 -pthread system.c -o OUT/system"]),
    (
        "locals",
        &[
            "cc -g -O0 -shared -fPIC locals_library.c -o OUT/liblocals_library.so",
            "cc -g -O0 -shared -fPIC locals_later.c -o OUT/locals_later.so",
            "cc -g -O0 -pthread locals.c -o OUT/locals -LOUT -llocals_library -Wl,-rpath,$ORIGIN",
        ],
    ),
];

/// The folder of a program, whose own name is that of the program.
pub fn built(name: &str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(name.to_owned()).or_insert_with(|| build(name)).clone()
}

/// Builds a program. Another test process may be at it too: each builds in a folder of its own, and
/// moves each file whole.
fn build(name: &str) -> PathBuf {
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixture/gdb"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gdb-{name}"));
    let own = folder.with_extension(std::process::id().to_string());
    let commands = PROGRAMS.iter().find(|it| it.0 == name).expect("it is in the table").1;
    std::fs::create_dir_all(&own).unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    for command in commands {
        let words = command.split(' ').map(|it| it.replace("OUT", own.to_str().unwrap()));
        let words: Vec<String> = words.collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(sources.canonicalize().unwrap());
        let status = command.status().unwrap_or_else(|error| panic!("{}: {error}", words[0]));
        assert!(status.success(), "{words:?}");
    }
    for file in std::fs::read_dir(&own).unwrap().flatten() {
        std::fs::rename(file.path(), folder.join(file.file_name())).unwrap();
    }
    std::fs::remove_dir(&own).unwrap();
    folder
}
