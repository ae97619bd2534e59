//! Pictures of what a terminal shows, drawn from real runs while somebody works beside.
//!
//! In: commands and the keys that are pressed. Out: an SVG each, in the folder that
//! `MONITOR_PICTURES` names (`cargo xtask pictures`), else in one that goes with the test.
//! The page is taken by the browser's own test (`web/page.rs`).

use crate::deadline::until;
use crate::root::privilege::granted;
use crate::served::Folder;
use crate::top::terminal::Terminal;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A picture: its name, the size of its terminal, what is asked, and how it goes on.
struct Picture {
    name: &'static str,
    size: (u16, u16),
    words: &'static [&'static str],
    /// None where the command ends by itself.
    turns: &'static [Turn],
    /// What must be seen at last.
    shows: &'static str,
}

/// What must be true of the screen before a key, and the key.
type Turn = (fn(&str) -> bool, &'static str);

const PICTURES: &[Picture] = &[
    Picture {
        name: "watch",
        size: (80, 16),
        words: &["watch", "--local", "--count", "2", "--top", "12"],
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

/// Whether there was a second reading: the disk says how busy it was.
fn has_rates(text: &str) -> bool {
    text.contains("sha256sum") && !text.contains("-%")
}

/// Whether a plot has something to show: it says of how many readings it is.
fn has_history(text: &str) -> bool {
    let numbers = text.split("last ").skip(1).filter_map(|it| it.split(' ').next());
    numbers.filter_map(|it| it.parse::<u32>().ok()).any(|readings| readings > 8)
}

/// Those who work: a pipe, a computation, writes to a disk.
struct Scene(Vec<Child>, #[expect(dead_code, reason = "what is written goes with it")] Folder);

impl Scene {
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

impl Drop for Scene {
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
    /// What its terminal shows in the end, with colours.
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

    /// The same below a prompt, as a drawing.
    fn drawn(&self) -> String {
        let words = self.words.iter().filter(|it| **it != "--local").map(|it| quoted(it));
        let asked = words.collect::<Vec<_>>().join(" ");
        let screen = format!("\x1b[1m$ monitor {asked}\x1b[0m\n{}", self.taken());
        anstyle_svg::Term::new().palette(anstyle_svg::WIN10_CONSOLE).render_svg(&screen)
    }
}

/// As it is typed at a shell.
fn quoted(word: &str) -> String {
    if word.contains([' ', '|']) { format!("'{word}'") } else { word.to_owned() }
}

#[test]
fn root_pictures_can_be_taken_of_what_the_readme_tells() {
    if !granted("root_pictures_can_be_taken_of_what_the_readme_tells") {
        return;
    }
    let _scene = Scene::begin();
    let own = Folder::new();
    let folder = std::env::var_os("MONITOR_PICTURES").map_or_else(|| own.join(""), PathBuf::from);
    for picture in PICTURES {
        let drawing = picture.drawn();
        assert!(drawing.contains(picture.shows), "{}: {drawing}", picture.name);
        std::fs::write(folder.join(format!("{}.svg", picture.name)), drawing).unwrap();
    }
}
