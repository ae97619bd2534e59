//! How the copies to targets ended, as lines between services, and as lines of `err`.

use monitor_control::session::copy_target::CopyTarget;
use std::fmt::Write as _;

/// Longest explanation, in bytes: there is one for each target.
const WHY_BYTES: usize = 200;

/// How a copy ended; an explanation if it failed.
pub type Outcome = Result<(), String>;

/// A line of what a target reports to the service that it has its copy from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportLine {
    /// It has its copy.
    Copied,
    /// It is still at work.
    Working,
    /// How the copy to another ended, by its number in the list that the target has got.
    Outcome(usize, Outcome),
}

impl ReportLine {
    /// With its line break.
    pub fn to_text(&self) -> String {
        match self {
            Self::Copied => "copied\n".to_owned(),
            Self::Working => "working\n".to_owned(),
            Self::Outcome(number, Ok(())) => format!("ok {number}\n"),
            Self::Outcome(number, Err(why)) => format!("failed {number} {}\n", one_line(why)),
        }
    }

    /// Parses a line without its line break; `None` if it is none.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "copied" => Some(Self::Copied),
            "working" => Some(Self::Working),
            "ok" => Some(Self::Outcome(rest.parse().ok()?, Ok(()))),
            "failed" => {
                let (number, why) = rest.split_once(' ')?;
                Some(Self::Outcome(number.parse().ok()?, Err(one_line(why))))
            }
            _ => None,
        }
    }
}

/// The lines of `err`, in the order of the targets; and how many copies have failed.
pub fn lines(targets: &[CopyTarget], outcomes: &[Option<Outcome>]) -> (String, usize) {
    let (mut text, mut failed) = (String::new(), 0);
    for (target, outcome) in targets.iter().zip(outcomes) {
        let why = match outcome {
            Some(Ok(())) => {
                let _ = writeln!(text, "{target} copied");
                continue;
            }
            Some(Err(why)) => one_line(why),
            None => "its outcome is not known".to_owned(),
        };
        failed += 1;
        let _ = writeln!(text, "{target} failed: {why}");
    }
    (text, failed)
}

/// A text without control characters, cut at the limit.
fn one_line(text: &str) -> String {
    let text: String = text.chars().map(|it| if it.is_control() { '?' } else { it }).collect();
    text[..text.floor_char_boundary(WHY_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_is_written() {
        let failed = ReportLine::Outcome(3, Err("no route: really".to_owned()));
        for it in [ReportLine::Copied, ReportLine::Working, ReportLine::Outcome(0, Ok(())), failed]
        {
            assert_eq!(ReportLine::parse(it.to_text().trim_end()), Some(it));
        }
        for odd in ["", "ok", "ok x", "failed 3", "failed x y", "done"] {
            assert_eq!(ReportLine::parse(odd), None, "{odd}");
        }
        let long = ReportLine::Outcome(1, Err("a\nb".repeat(1000)));
        assert!(long.to_text().len() < 220 && long.to_text().lines().count() == 1);
    }

    #[test]
    fn each_target_has_a_line() {
        let targets = CopyTarget::list(b"/a/1/k,/b/2/k,/c/3/k").expect("three");
        let outcomes = [Some(Ok(())), Some(Err("no".to_owned())), None];
        let want = "/a/1 copied\n/b/2 failed: no\n/c/3 failed: its outcome is not known\n";
        assert_eq!(lines(&targets, &outcomes), (want.to_owned(), 2));
    }
}
