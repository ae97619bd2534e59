//! Tools of a round: sessions of two users, commands, a screen, with requests picked at random.

use super::random::Random;
use super::workload::{Watched, Workload};
use crate::control::target;
use crate::root::privilege::{USER, as_user};
use crate::served::Served;
use crate::socket_session::SocketSession;
use crate::top::terminal::Terminal;
use monitor_sys::spawn::default_signals;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// What a session requests of one process, after it has attached it. No breakpoint is where the
/// program passes: one that reaches it when its user worker is killed gets `SIGTRAP`. The procedure
/// `later` returns when the tools have ended.
const REQUESTS: &[&[&str]] = &[
    &["2 [] stop([PID])"],
    &["2 [] stop([PID])", "3 [] continue([PID])", "4 [] stop([PID])"],
    &["2 [] start_stopped(\"PROGRAM\",[\"slow\",\"2\"])"],
    &["2 [] stack_backtrace(PID)", "3 [] read_memory(PID,ADDRESS(tick),64)"],
    &["2 [] stop([PID])", "3 [] read_int_registers(PID,0,8)", "4 [] kill([PID],10)"],
    &[
        "2 [] cnt_create(\"n\",\"counter\",\"\")",
        "3 [] start_lib_call([PID],\"tick\"): 4 [] cnt_add(\"n\",1)",
        "5 [] enable(3)",
    ],
    &["3 [] start_lib_call([PID],\"libc:usleep\"): 4 [] print($proc)", "5 [] enable(3)"],
    &["3 [] end_lib_call([PID],\"tick\"): 4 [] print($proc)", "5 [] enable(3)", "6 [] delete(3)"],
    &["3 [] start_lib_call([PID],\"tick\"): 4 [] read_int_registers(PID,5,1)", "5 [] enable(3)"],
    &["3 [] start_lib_call([PID],\"tick\"): 4 [] stop([PID])", "5 [] enable(3)"],
    &["3 [] process_terminated([]): 4 [] print($proc)", "5 [] enable(3)", "6 [] stop([PID])"],
    &["3 [] call_procedure(PID,ADDRESS(later),5): 4 [] print($3)", "5 [] enable(3)"],
    &["3 [] call_procedure(PID,ADDRESS(sum),1,2,3,4,5,6,7,8): 4 [] print($3)", "5 [] enable(3)"],
    &[
        "3 [] breakpoint([PID],ADDRESS(sum)): 4 [] print($1)",
        "5 [] breakpoint([PID],ADDRESS(scale)): 6 [] stop($1)",
        "7 [] breakpoint([PID],ADDRESS(landing)): 8 [] print($1)",
        "9 [] enable(3), 9 [] enable(5), 9 [] enable(7)",
    ],
];

/// An action of a command that leaves its process stopped, until the process is continued.
const STOPS: &str = "print,stop";

/// What commands do.
const COMMANDS: &[&str] = &[
    "watch --every 100ms --format json",
    "watch --every 100ms --threads --pid PID",
    "watch --every 200ms --exact-cpu --disk --net --runqlat --group-by cgroup",
    "watch --local --every 100ms --signals --pid PID",
    "record FOLDER/recording --every 100ms",
    "when call~tick count,time --pid PID",
    "when return~tick print --pid PID",
    "when signal~USR1 print,stop --pid PID",
    "ask --pid PID --for 60s 1~[]~stop([PID])",
    "start --every 100ms --pid PID",
    "run -- true",
    "sample",
    "status",
];

/// A tool that runs.
pub enum Tool {
    /// It ends when it is dropped.
    Session {
        _connected: SocketSession,
    },
    Command {
        child: Child,
        /// The process that it may leave stopped, as it was asked to.
        stops: Option<u32>,
    },
    Screen(Terminal),
}

impl Tool {
    /// Starts one, and returns what it is.
    pub fn start(random: &mut Random, service: &Served, workload: &Workload) -> (Self, String) {
        let all = workload.all();
        let watched = all[random.below(all.len())];
        match random.below(8) {
            0 => {
                let mut command = Command::new("setsid");
                command.arg("--ctty").arg(workload.folder().join("monitor"));
                command.arg("top").arg("--socket").arg(service.socket());
                (Self::Screen(Terminal::run(&mut command, (100, 30))), "top".to_owned())
            }
            1..4 => {
                let words = random.pick(COMMANDS);
                let words = filled(words, watched, workload);
                let mut command = Command::new(workload.folder().join("monitor"));
                command.env("MONITOR_SOCKET", service.socket()).stdin(Stdio::null());
                command.args(words.split(' ').map(|word| word.replace('~', " ")));
                // Some belong to the user whose programs they watch.
                let uid = if random.one_in(2) { watched.uid } else { 0 };
                command.uid(uid).gid(uid).stdout(Stdio::null()).stderr(Stdio::null());
                // A shell may have started the tests with SIGINT ignored.
                default_signals(&mut command);
                let stops = words.contains(STOPS).then_some(watched.pid);
                let said = format!("{words} by {uid}");
                (Self::Command { child: command.spawn().unwrap(), stops }, said)
            }
            _ => session(random, service, (watched, workload)),
        }
    }

    /// Its process, if it has one of its own.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Session { .. } => None,
            Self::Command { child, .. } => Some(child.id()),
            Self::Screen(terminal) => Some(terminal.pid()),
        }
    }

    /// Ends it, in one of the ways in which tools end; returns which.
    pub fn end(self, random: &mut Random) -> &'static str {
        match self {
            Self::Session { .. } => "disconnects",
            Self::Screen(mut terminal) if random.one_in(2) => {
                terminal.close();
                "loses its terminal"
            }
            Self::Screen(_) => "is killed",
            Self::Command { mut child, stops } => {
                let (name, signal) = random.pick(&[
                    ("is interrupted", Signal::INT),
                    ("is terminated", Signal::TERM),
                    ("is killed", Signal::KILL),
                ]);
                // It may have ended by itself.
                let _ended = kill_process(Pid::from_child(&child), signal);
                let _status = crate::deadline::until(|| child.try_wait().unwrap());
                stops.iter().for_each(|pid| target::signal(*pid, "CONT"));
                name
            }
        }
    }
}

/// What a session has said; it is printed if a reply does not come.
struct Said(String);

impl Drop for Said {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("soak: {}", self.0);
        }
    }
}

/// A session of root or of the user of this program.
fn session(
    random: &mut Random,
    service: &Served,
    (watched, workload): (&Watched, &Workload),
) -> (Tool, String) {
    let is_user = watched.uid == USER && random.one_in(2);
    let mut session = if is_user { as_user(&[], || service.connect()) } else { service.connect() };
    let mut said = Said(format!("session of {}:", if is_user { USER } else { 0 }));
    let attach = format!("1 [] attach([{}])", watched.pid);
    said.0 += &format!(" {}", session.request(&attach));
    let waits = random.one_in(2);
    for request in random.pick(REQUESTS) {
        let request = filled(request, watched, workload);
        said.0 += &format!(" > {request}");
        if waits {
            said.0 += &format!(" < {}", session.request(&request));
        } else {
            session.send(format!("{request}\n").as_bytes()).unwrap();
        }
    }
    (Tool::Session { _connected: session }, std::mem::take(&mut said.0))
}

/// Words of the lists above, with what they stand for.
fn filled(words: &str, watched: &Watched, workload: &Workload) -> String {
    let mut text = words.replace("PID", &watched.pid.to_string());
    text = text.replace("PROGRAM", workload.program());
    text = text.replace("FOLDER", &workload.folder().display().to_string());
    while let Some((before, rest)) = text.split_once("ADDRESS(") {
        let (name, after) = rest.split_once(')').unwrap();
        text = format!("{before}{}{after}", watched.target.at(name));
    }
    text
}
