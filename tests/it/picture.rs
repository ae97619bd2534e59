//! Pictures of terminals, from real runs with a workload in the background.
//!
//! In: commands and keys. Out: one SVG each, in the folder `MONITOR_PICTURES` (set by
//! `cargo xtask pictures`), else in a temporary one. The picture of the page is taken by the test
//! of the browser (`web/page.rs`).

use crate::deadline::until;
use crate::root::privilege::granted;
use crate::served::Folder;
use crate::top::terminal::Terminal;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A picture: its name, the size of the terminal, the command, and the keys.
struct Picture {
    name: &'static str,
    size: (u16, u16),
    words: &'static [&'static str],
    /// Empty if the command exits by itself.
    turns: &'static [Turn],
    /// Text that the last screen must show.
    shows: &'static str,
}

/// A condition on the screen, and the key to press when it holds.
type Turn = (fn(&str) -> bool, &'static str);

const PICTURES: &[Picture] = &[
    Picture {
        name: "watch",
        size: (80, 16),
        words: &["watch", "--local", "--count", "2", "--top", "9"],
        turns: &[],
        shows: "sha256sum",
    },
    Picture {
        name: "run",
        size: (80, 12),
        words: &["run", "--", "sh", "-c", "head -c 100M /dev/zero | gzip -1 | wc -c"],
        turns: &[],
        shows: "gzip",
    },
    Picture {
        name: "when",
        size: (80, 12),
        words: &["when", "call libc:open", "print,count,time", "--", "cat", "/etc/hostname"],
        turns: &[],
        shows: "EVENT",
    },
    Picture {
        name: "top",
        size: (100, 28),
        words: &["top", "--local", "--every", "500ms"],
        turns: &[(has_rates, "")],
        shows: "sha256sum",
    },
    Picture {
        name: "details",
        size: (100, 28),
        words: &["top", "--local", "--every", "500ms", "--filter", "comm ~ sha256"],
        turns: &[(has_rates, "\r"), (has_history, "")],
        shows: "sha256sum",
    },
];

/// Whether there was a second reading: the disk has a utilization.
fn has_rates(text: &str) -> bool {
    text.contains("sha256sum") && !text.contains("-%")
}

/// Whether a plot covers more than eight readings: it shows their number.
fn has_history(text: &str) -> bool {
    let numbers = text.split("last ").skip(1).filter_map(|it| it.split(' ').next());
    numbers.filter_map(|it| it.parse::<u32>().ok()).any(|readings| readings > 8)
}

/// The workload: a pipe, a computation, writes to a disk.
struct Workload(
    Vec<Child>,
    #[expect(dead_code, reason = "removes the written file on drop")] Folder,
);

impl Workload {
    fn begin() -> Self {
        let folder = Folder::new();
        let file = folder.join("file");
        let writes = format!(
            "while :; do dd if=/dev/zero of={} bs=64k count=64 conv=fsync; sleep 0.1; done",
            file.display()
        );
        let scripts = ["exec nice -n 5 sha256sum /dev/zero", "yes | gzip -1 > /dev/null", &writes];
        Self(scripts.iter().map(|script| group(script)).collect(), folder)
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let group = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = child.wait();
        }
    }
}

/// A script in a process group of its own.
fn group(script: &str) -> Child {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn().unwrap()
}

impl Picture {
    /// Runs the command and returns the last screen, with colours.
    fn taken(&self) -> String {
        let mut terminal = Terminal::start(self.words, self.size);
        for (holds, key) in self.turns {
            until(|| holds(&terminal.text()).then_some(()));
            terminal.types(key);
        }
        if self.turns.is_empty() {
            let status = terminal.ends();
            assert!(status.success(), "{:?}: {status}\n{}", self.words, terminal.text());
        }
        let _ = terminal.shows(self.shows);
        terminal.drawn()
    }

    /// Renders the screen below a prompt, as SVG.
    fn drawn(&self) -> String {
        let words = self.words.iter().filter(|it| **it != "--local").map(|it| quoted(it));
        let arguments = words.collect::<Vec<_>>().join(" ");
        let screen = format!("\x1b[1m$ monitor {arguments}\x1b[0m\n{}", self.taken());
        anstyle_svg::Term::new().palette(anstyle_svg::WIN10_CONSOLE).render_svg(&screen)
    }
}

/// Quotes an argument for a shell.
fn quoted(word: &str) -> String {
    if word.contains([' ', '|']) { format!("'{word}'") } else { word.to_owned() }
}

#[test]
fn root_pictures_of_the_readme_can_be_taken() {
    if !granted("root_pictures_of_the_readme_can_be_taken") {
        return;
    }
    let _workload = Workload::begin();
    let temporary = Folder::new();
    let folder =
        std::env::var_os("MONITOR_PICTURES").map_or_else(|| temporary.join(""), PathBuf::from);
    for picture in PICTURES {
        let drawing = picture.drawn();
        assert!(drawing.contains(picture.shows), "{}: {drawing}", picture.name);
        std::fs::write(folder.join(format!("{}.svg", picture.name)), drawing).unwrap();
    }
}
