//! The text that describes a world through time.
//!
//! A line is a thing and its values, and happens at the beginning or `at` a time after it:
//!
//! ```text
//! host node7                            name of the node, if it is not test-node
//! every 500ms                           time between readings, if it is not 1s
//! process 7 comm=worker rss_bytes=4M    a process that was there before
//! process 7 cpu_ns=0 cpu_ns/s=250ms     values set, and growing each second from now on
//! at 2s   process 8 comm="a b" ppid=7   one that starts then
//! at 3s   thread 8 9 cpu_ns+=10ms       thread 9 of process 8, and 10 ms added once
//! at 4s   end 8 exit_code=1             it ends; the next reading shows it a last time
//! node load1=0.5
//! cpu 0 user_ns/s=1s
//! disk sda read_bytes=1M
//! net eth0 received_bytes=1M            # a comment
//! at 5s   signal 7 10                   process 7 takes signal 10
//! ```
//!
//! In: the text. Out: what happens, in the order of time, or the line that makes no sense. The
//! names of values are those of the field lists, texts included; `$NAME=value` is a variable of the
//! environment.

use super::split_words::words;
use super::value::{self, ChangeKind, FieldChange};
use monitor_model::{
    Category, CpuField, DiskField, NetField, NodeField, Ns, Pid, ProcessField, ValueKind,
};
use std::{str::FromStr, sync::Arc};

/// A line of a script that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the script: {what}")]
pub struct ScriptError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    /// Name of the node.
    pub host: Arc<str>,
    /// Time between two readings.
    pub every: Ns,
    /// What happens, in the order of time.
    pub lines: Vec<ScriptLine>,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub struct ScriptLine {
    /// When, after the beginning.
    pub at: Ns,
    /// What.
    pub act: WorldChange,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum WorldChange {
    /// A process starts, or changes.
    Process(Pid, Vec<Edit>),
    /// A thread of a process starts, or changes.
    Thread(Pid, Pid, Vec<Edit>),
    /// A process ends.
    End(Pid, Vec<Edit>),
    /// A process takes a signal.
    Signal(Pid, u32),
    /// The node changes.
    Node(Vec<FieldChange<NodeField>>),
    /// A processor changes.
    Cpu(u32, Vec<FieldChange<CpuField>>),
    /// A disk appears, or changes.
    Disk(Arc<str>, Vec<FieldChange<DiskField>>),
    /// An interface appears, or changes.
    Net(Arc<str>, Vec<FieldChange<NetField>>),
}

/// A change of a process.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Of a number.
    Value(FieldChange<ProcessField>),
    /// Of a text.
    Text(ProcessField, Arc<str>),
    /// Of a variable of its environment: `NAME=value`.
    Variable(Arc<str>),
}

impl Script {
    /// Reads a script.
    pub fn from_text(text: &str) -> Result<Self, ScriptError> {
        let mut script =
            Self { host: "test-node".into(), every: Ns(1_000_000_000), lines: Vec::new() };
        for (idx, line) in text.lines().enumerate() {
            let read = words(line).and_then(|words| script.read_line(&words));
            read.map_err(|what| ScriptError { line: idx + 1, what })?;
        }
        // Stable: lines of the same time happen in the order of the text.
        script.lines.sort_by_key(|line| line.at);
        Ok(script)
    }

    fn read_line(&mut self, words: &[String]) -> Result<(), String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => {}
            ["host", name] => self.host = (*name).into(),
            ["every", time] => self.every = Ns(span(time)?),
            ["at", time, rest @ ..] => {
                self.lines.push(ScriptLine { at: Ns(span(time)?), act: act(rest)? });
            }
            rest => self.lines.push(ScriptLine { at: Ns(0), act: act(rest)? }),
        }
        Ok(())
    }
}

fn act(words: &[&str]) -> Result<WorldChange, String> {
    Ok(match words {
        ["process", pid, rest @ ..] => WorldChange::Process(Pid(number(pid)?), edits(rest)?),
        ["thread", pid, tid, rest @ ..] => {
            WorldChange::Thread(Pid(number(pid)?), Pid(number(tid)?), edits(rest)?)
        }
        ["end", pid, rest @ ..] => WorldChange::End(Pid(number(pid)?), edits(rest)?),
        ["signal", pid, signal] => WorldChange::Signal(Pid(number(pid)?), number(signal)?),
        ["node", rest @ ..] => WorldChange::Node(changes(rest)?),
        ["cpu", cpu, rest @ ..] => WorldChange::Cpu(number(cpu)?, changes(rest)?),
        ["disk", name, rest @ ..] => WorldChange::Disk((*name).into(), changes(rest)?),
        ["net", name, rest @ ..] => WorldChange::Net((*name).into(), changes(rest)?),
        [other, ..] => {
            return Err(format!(
                "{other}: wanted host, every, at, process, thread, end, signal, node, cpu, \
                 disk or net"
            ));
        }
        [] => return Err("nothing happens then".to_owned()),
    })
}

fn changes<F: Category>(words: &[&str]) -> Result<Vec<FieldChange<F>>, String> {
    words.iter().map(|word| value::change(word)).collect()
}

fn edits(words: &[&str]) -> Result<Vec<Edit>, String> {
    words.iter().map(|word| edit(word)).collect()
}

fn edit(word: &str) -> Result<Edit, String> {
    if let Some(variable) = word.strip_prefix('$') {
        return Ok(Edit::Variable(variable.into()));
    }
    let (name, how, text) = value::split(word)?;
    if name == ProcessField::Job.field().name {
        return Err(
            "job: it follows from cgroup and from variables such as $PMIX_RANK=0".to_owned()
        );
    }
    match ProcessField::from_name(name).filter(|field| field.field().kind == ValueKind::Text) {
        Some(field) if how == ChangeKind::Set => Ok(Edit::Text(field, text.into())),
        _ => value::change(word).map(Edit::Value),
    }
}

fn number(text: &str) -> Result<u32, String> {
    u32::from_str(text).map_err(|_| format!("{text}: wanted a number"))
}

fn span(text: &str) -> Result<u64, String> {
    value::number(text).ok_or_else(|| format!("{text}: wanted a time such as 500ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_error(text: &str, line: usize, what: &str) {
        let error = Script::from_text(text).unwrap_err();
        assert_eq!((error.line, error.what.as_str()), (line, what));
    }

    #[test]
    fn an_error_names_its_line() {
        check_error(
            "every 1s\nproces 7",
            2,
            "proces: wanted host, every, at, process, thread, end, signal, node, cpu, \
             disk or net",
        );
        check_error("at 2.5s process 7", 1, "2.5s: wanted a time such as 500ms");
        check_error("process x", 1, "x: wanted a number");
        check_error("process 7 cpu_nss=1", 1, "cpu_nss: no such field");
        check_error("process 7 comm+=x", 1, "comm: only numbers grow");
        check_error("at 1s", 1, "nothing happens then");
    }

    #[test]
    fn lines_happen_in_the_order_of_time() {
        let script = Script::from_text("at 2s end 7\nprocess 7\nat 1s node load1=1").unwrap();
        let times: Vec<u64> = script.lines.iter().map(|line| line.at.0).collect();
        assert_eq!(times, [0, 1_000_000_000, 2_000_000_000]);
    }
}
