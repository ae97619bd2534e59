//! `monitor job output`: what the ranks of `job launch -n`, or a launcher in the background, have
//! written.
//!
//! In: the job, and some of its ranks. Out: their standard output and error, from the oldest part
//! that the host keeps until the job has ended; then how the launcher and each rank ended.

use super::args::JobOutputArgs;
use super::host_connection::{HostConnection, LAUNCH};
use super::tagged_lines::TaggedLines;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, notice};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use monitor_control::host_protocol::{
    EndedRank, HostAnswer, HostRequest, OutputSpan, SpanOf, SpanWait,
};
use monitor_jobs::RankSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

/// Prints it.
///
/// # Errors
/// If there is no such job, or its host does not answer.
pub fn output(args: &JobOutputArgs) -> Result<Exit, Failure> {
    let host = HostConnection::find(&args.job)?;
    let mut printer = Printer { args, lines: TaggedLines::new(&host.id) };
    let is_wanted = |rank: Option<u32>| match (&host.ranks, rank) {
        (Some(ranks), Some(rank)) => ranks.contains(rank),
        (Some(_), None) => false,
        (None, _) => true,
    };
    let wait = match args.span {
        _ if !args.no_follow => SpanWait::ToTheEnd,
        None => SpanWait::First(0),
        Some(span) => SpanWait::First(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
    };
    let most = args.most.unwrap_or(u64::MAX);
    let of = if host.ranks.is_some() { SpanOf::Ranks } else { SpanOf::All };
    let request = HostRequest::Output(OutputSpan { from: args.from, most, wait, of });
    let mut exit = Exit::Ok;
    host.ask(&request, |answer| {
        let answer = match answer {
            HostAnswer::Output { rank, .. } if !is_wanted(rank) => return Ok(true),
            HostAnswer::Ended(mut ranks) => {
                ranks.retain(|it| is_wanted(it.rank));
                HostAnswer::Ended(ranks)
            }
            other => other,
        };
        let is_last = matches!(answer, HostAnswer::Ended(_));
        if matches!(answer, HostAnswer::Lost(_)) {
            exit = Exit::Partial;
        }
        // A reader that has closed its pipe ends it.
        Ok(printer.print(answer)? && !is_last)
    })?;
    Ok(exit)
}

struct Printer<'a> {
    args: &'a JobOutputArgs,
    lines: TaggedLines,
}

impl Printer<'_> {
    /// Whether the output is still read.
    fn print(&mut self, answer: HostAnswer) -> Result<bool, Failure> {
        if self.args.format == "json" {
            let text = output::json(&answer)?;
            return written(io::stdout().write_all(text.as_bytes()).and_then(|()| flush()));
        }
        match answer {
            HostAnswer::Lost(bytes) => {
                notice(&format!("{bytes} bytes of older output are not kept"));
                Ok(true)
            }
            HostAnswer::Output { namespace, rank, is_error, bytes } => {
                let bytes = STANDARD.decode(bytes).map_err(Failure::failed)?;
                if self.args.tag {
                    let text = self.lines.add((namespace, rank, is_error), &bytes);
                    written(write(is_error, &text))
                } else {
                    written(write(is_error, &bytes))
                }
            }
            HostAnswer::Ended(ranks) => {
                for (is_error, line) in self.lines.rest() {
                    written(write(is_error, &line))?;
                }
                summary(&ranks).iter().for_each(|line| notice(line));
                Ok(true)
            }
            HostAnswer::Done
            | HostAnswer::Refused(_)
            | HostAnswer::Values(_)
            | HostAnswer::Position(_) => Ok(true),
        }
    }
}

fn flush() -> io::Result<()> {
    io::stdout().flush()
}

/// Writes it to standard output or error, which another process may have made non-blocking: then
/// it waits for room.
///
/// # Errors
/// Those of writing.
pub fn write(is_error: bool, bytes: &[u8]) -> io::Result<()> {
    flush()?;
    let (output, errors) = (io::stdout(), io::stderr());
    let stream = if is_error { errors.as_fd() } else { output.as_fd() };
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(stream, rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut room = [PollFd::new(&stream, PollFlags::OUT)];
                retry_on_intr(|| poll(&mut room, None))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether the output is still read.
fn written(result: io::Result<()>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::failed(format!("cannot write: {error}"))),
    }
}

/// How a launcher and ranks ended: a line for those that ended in the same way.
fn summary(ends: &[EndedRank]) -> Vec<String> {
    let mut ways: BTreeMap<(Option<i32>, Option<i32>), Vec<u32>> = BTreeMap::new();
    for (end, rank) in ends.iter().filter_map(|it| Some((it, it.rank?))) {
        ways.entry((end.code, end.signal)).or_default().push(rank);
    }
    let launcher = ends.iter().find(|it| it.rank.is_none()).map(|launcher| {
        let how = how_ended((launcher.code, launcher.signal));
        let ranks = if ways.is_empty() { "; how its ranks ended is not known" } else { "" };
        // A job that a PMIx server has started has no launcher here.
        let is_launch = launcher.namespace.starts_with(LAUNCH);
        let what = if is_launch { "launcher" } else { "job" };
        format!("the {what} {how}{ranks}")
    });
    let line = |(end, ranks): ((Option<i32>, Option<i32>), Vec<u32>)| {
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        let set: RankSet = ranks.into_iter().collect();
        format!("{noun} {set} {}", how_ended(end))
    };
    launcher.into_iter().chain(ways.into_iter().map(line)).collect()
}

fn how_ended(end: (Option<i32>, Option<i32>)) -> String {
    match end {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended with an unknown status".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_ended_in_the_same_way_have_one_line() {
        let namespace = || format!("{LAUNCH}7");
        let ended = |rank, code, signal| EndedRank { namespace: namespace(), rank, code, signal };
        let launcher = ended(None, Some(1), None);
        let ranks = [
            ended(Some(0), Some(0), None),
            ended(Some(1), None, Some(9)),
            ended(Some(2), Some(0), None),
        ];
        let want = ["rank 1 ended by signal 9", "ranks 0,2 ended with exit code 0"];
        assert_eq!(summary(&ranks), want);
        let first = "the launcher ended with exit code 1";
        assert_eq!(summary(&[std::slice::from_ref(&launcher), &ranks[..]].concat())[0], first);
        let alone = format!("{first}; how its ranks ended is not known");
        assert_eq!(summary(std::slice::from_ref(&launcher)), [alone]);
        let job = EndedRank { namespace: "prte-vm-7@1".to_owned(), ..launcher };
        let job = summary(&[&[job][..], &ranks[..]].concat());
        assert_eq!(job[0], "the job ended with exit code 1");
    }
}
