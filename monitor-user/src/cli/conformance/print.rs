//! Verdicts and sentences as text, JSON, and the table of docs/CONFORMANCE.md.

use monitor_conformance::case::{Case, Evidence, Sentence};
use monitor_conformance::verdict::{Finding, Summary, Verdict};
use monitor_format::human;
use monitor_format::wrap::{COLUMNS, wrap};
use serde_json::{Value as Json, json as object};
use std::fmt::Write;

/// Columns of the section and of the verdict.
const SECTION: usize = 7;
const VERDICT: usize = 10;

/// The verdicts, one sentence after the other, and their numbers.
pub fn table(found: &[Finding]) -> String {
    let mut out = String::new();
    for finding in found {
        line(&finding.sentence, finding.verdict.word(), &mut out);
        match &finding.verdict {
            Verdict::Holds => {}
            Verdict::Fails(mismatch) => {
                detail("case", &format!("{}:{}", finding.file, mismatch.line), &mut out);
                detail("expected", &mismatch.expected, &mut out);
                detail("received", &mismatch.received, &mut out);
            }
            Verdict::NotRun(needs) => reason("needs", needs, &mut out),
            Verdict::Deviates(why) => reason("reason", why, &mut out),
        }
    }
    let Summary { holds, failed, not_run, deviate } = Summary::from_findings(found);
    let all = found.len();
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        out,
        "{all} sentences: {holds} hold, {failed} FAILED, {not_run} not run, {deviate} deviations"
    );
    // Replies are text of another program.
    human::escaped_lines(&out)
}

fn line(sentence: &Sentence, word: &str, out: &mut String) {
    // Writing to a `String` cannot fail.
    let _ = write!(out, "{:<SECTION$}{word:<VERDICT$}", sentence.section);
    wrap(&sentence.text, SECTION + VERDICT, COLUMNS, out);
}

/// A reason, wrapped; replies are not, so that they can be copied.
fn reason(name: &str, text: &str, out: &mut String) {
    let _ = write!(out, "{:indent$}{name:<9} ", "", indent = SECTION + VERDICT);
    wrap(text, SECTION + VERDICT + 10, COLUMNS, out);
}

fn detail(name: &str, text: &str, out: &mut String) {
    let _ = writeln!(out, "{:indent$}{name:<9} {text}", "", indent = SECTION + VERDICT);
}

/// The verdicts as JSON.
pub fn json(found: &[Finding]) -> String {
    let sentences: Vec<Json> = found.iter().map(json_finding).collect();
    let Summary { holds, failed, not_run, deviate } = Summary::from_findings(found);
    let summary =
        object!({ "holds": holds, "failed": failed, "not_run": not_run, "deviate": deviate });
    format!("{}\n", object!({ "schema_version": 1, "sentences": sentences, "summary": summary }))
}

fn json_finding(finding: &Finding) -> Json {
    let Finding { file, sentence, verdict } = finding;
    let mut it = object!({ "section": sentence.section, "sentence": sentence.text, "file": file });
    let name = match verdict {
        Verdict::Holds => "holds",
        Verdict::Fails(mismatch) => {
            it["line"] = mismatch.line.into();
            it["expected"] = mismatch.expected.as_str().into();
            it["received"] = mismatch.received.as_str().into();
            "failed"
        }
        Verdict::NotRun(needs) => {
            it["needs"] = needs.as_str().into();
            "not_run"
        }
        Verdict::Deviates(reason) => {
            it["reason"] = reason.as_str().into();
            "deviates"
        }
    };
    it["verdict"] = name.into();
    it
}

/// Where a sentence is verified: a word, and what it needs.
fn verification<'c>(case: &'c Case, sentence: &'c Sentence) -> (&'static str, &'c str) {
    match (&sentence.evidence, &case.needs) {
        (Evidence::Deviation(reason), _) => ("deviates", reason),
        (Evidence::Test(test), _) => ("test", test),
        (Evidence::Case, Some(needs)) => ("memory", needs),
        (Evidence::Case, None) => ("socket", ""),
    }
}

fn sentences(cases: &[Case]) -> impl Iterator<Item = (&Case, &Sentence)> {
    cases.iter().flat_map(|case| case.sentences.iter().map(move |it| (case, it)))
}

/// The sentences as text.
pub fn list(cases: &[Case]) -> String {
    let mut out = String::new();
    for (case, sentence) in sentences(cases) {
        line(sentence, verification(case, sentence).0, &mut out);
    }
    out
}

/// The sentences as JSON.
pub fn list_json(cases: &[Case]) -> String {
    let entry = |(case, sentence): (&Case, &Sentence)| {
        object!({
            "section": sentence.section,
            "sentence": sentence.text,
            "file": case.file,
            "verified": verification(case, sentence).0,
            "detail": verification(case, sentence).1,
        })
    };
    let all: Vec<Json> = sentences(cases).map(entry).collect();
    format!("{}\n", object!({ "schema_version": 1, "sentences": all }))
}

const HEAD: &str = "\
# Conformance

The normative sentences of OMIS 1.0, section by section, and where each is verified.
Long ones are shortened.
`monitor conformance --list --format markdown` generates this page from the cases.
[Their folder](../tests/request/README.md) describes their form.

`monitor conformance` runs the cases against an implementation of the language at a socket.
This is the service of this node, or with `--socket PATH` any other.
The command starts the processes that the cases act on.
It prints each sentence with `ok`, or with `FAILED`, the expected and the received reply.
If a sentence does not hold, the exit code is 9.
Tests of this project run it against the service, and run all cases in memory.

- `socket`: the command runs the case.
- `memory`: the case needs what no socket provides, and only the tests run it.
  The command prints `not run`, and what the case needs.
- `test`: a sentence about something else than requests; the named test verifies it.
- `deviates`: the monitor does not do what the sentence says, for the reason that is given.
";

/// The page.
pub fn markdown(cases: &[Case]) -> String {
    let mut out = HEAD.to_owned();
    let count =
        |word: &str| sentences(cases).filter(|(case, it)| verification(case, it).0 == word).count();
    let all = sentences(cases).count();
    // Writing to a `String` cannot fail.
    let _ = write!(
        out,
        "\n{all} sentences: {} are verified through a socket, {} in memory, {} by other tests; \
         the monitor deviates from {}.\n",
        count("socket"),
        count("memory"),
        count("test"),
        count("deviates")
    );
    let mut sections: Vec<&str> = sentences(cases).map(|(_, it)| it.section.as_str()).collect();
    sections.sort_by_key(|section| numbers(section));
    sections.dedup();
    for section in sections {
        let _ = write!(out, "\n## {section}\n\n| sentence | verified |\n|---|---|\n");
        for (case, sentence) in sentences(cases).filter(|(_, it)| it.section == section) {
            let (word, detail) = verification(case, sentence);
            let why = match word {
                "memory" => format!("memory: needs {}", escaped(detail)),
                "test" => format!("test: `{detail}`"),
                "deviates" => format!("deviates: {}", escaped(detail)),
                _ => word.to_owned(),
            };
            let _ = writeln!(out, "| {} | {why} |", escaped(&sentence.text));
        }
    }
    out
}

/// The numbers of a section, by which sections are sorted.
fn numbers(section: &str) -> Vec<u32> {
    section.split('.').flat_map(str::parse).collect()
}

/// The text of a cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_conformance::case::parse;
    use monitor_conformance::verdict::{Mismatch, findings};

    fn found() -> Vec<Finding> {
        let text = "says 5.1 A.\n---\nsays 7.1 B.\nneeds 2 nodes\n---\ndeviates 8 C. | because";
        let cases = parse("f.txt", text).unwrap();
        let mismatch =
            Mismatch { line: 3, expected: "1 [0] f(0)".into(), received: "1 [0] f(7)".into() };
        let verdicts = [
            Verdict::Fails(mismatch),
            Verdict::NotRun("2 nodes".into()),
            Verdict::NotRun(String::new()),
        ];
        cases.iter().zip(&verdicts).flat_map(|(case, it)| findings(case, it)).collect()
    }

    #[test]
    fn a_failure_is_printed_with_both_replies() {
        let text = table(&found());
        assert!(text.starts_with("5.1    FAILED    A.\n"), "{text}");
        assert!(text.contains("                 expected  1 [0] f(0)\n"), "{text}");
        assert!(text.contains("                 received  1 [0] f(7)\n"), "{text}");
        assert!(text.ends_with("3 sentences: 0 hold, 1 FAILED, 1 not run, 1 deviations\n"));
    }

    #[test]
    fn json_has_every_verdict() {
        let json: Json = serde_json::from_str(&json(&found())).unwrap();
        let verdicts: Vec<&str> = json["sentences"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["verdict"].as_str())
            .collect();
        assert_eq!(verdicts, ["failed", "not_run", "deviates"]);
        assert_eq!(json["summary"]["failed"], 1);
    }
}
