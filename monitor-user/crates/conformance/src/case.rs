//! A case: the sentences it shows, what it needs, and its lines.
//!
//! In: the text of a file; lines of `---` separate its cases. Out: cases whose lines keep their
//! numbers in the file. The lines themselves are read by what runs them (`step.rs`).

/// A sentence of the specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The section it is in.
    pub section: String,
    /// The sentence, as printed there.
    pub text: String,
    /// How it is verified.
    pub evidence: Evidence,
}

/// How a sentence is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// By its case.
    Case,
    /// By a test of this project: its file and its name.
    Test(String),
    /// Not at all: the monitor does not do what it says, for this reason.
    Deviation(String),
}

/// A line of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: usize,
    /// The text.
    pub text: String,
}

/// Requests and replies that show sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// The file it is from.
    pub file: String,
    /// The sentences; those that say so hold if the case passes.
    pub sentences: Vec<Sentence>,
    /// What it needs and no socket provides; `None` if any implementation can run it.
    pub needs: Option<String>,
    /// Its lines, without those above.
    pub lines: Vec<Line>,
}

impl Case {
    /// Whether any implementation can run it through a socket.
    pub fn is_portable(&self) -> bool {
        self.needs.is_none() && self.sentences.iter().all(|it| it.evidence == Evidence::Case)
    }
}

/// A line that is not of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub number: usize,
    /// What was expected.
    pub why: String,
}

impl std::fmt::Display for CaseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.number, self.why)
    }
}

/// The cases of a file.
///
/// # Errors
///
/// The first line with a sentence that has no section or no text, a deviation without its reason,
/// or a case that shows no sentence.
pub fn parse(file: &str, text: &str) -> Result<Vec<Case>, CaseError> {
    let error = |number, why: &str| CaseError { file: file.into(), number, why: why.into() };
    let mut cases = vec![Case { file: file.into(), ..Case::default() }];
    for (number, line) in (1..).zip(text.lines()) {
        if line == "---" {
            cases.push(Case { file: file.into(), ..Case::default() });
            continue;
        }
        let case = cases.last_mut().expect("there is a first case");
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "says" | "tested" | "deviates" => {
                let sentence = sentence(word, rest).map_err(|why| error(number, why))?;
                case.sentences.push(sentence);
            }
            "needs" => case.needs = Some(rest.into()),
            _ => case.lines.push(Line { number, text: line.into() }),
        }
    }
    match cases.iter().find(|case| case.sentences.is_empty()) {
        Some(case) => {
            let number = case.lines.first().map_or(1, |line| line.number);
            Err(error(number, "this case shows no sentence; add a line `says SECTION SENTENCE`"))
        }
        None => Ok(cases),
    }
}

fn sentence(word: &str, rest: &str) -> Result<Sentence, &'static str> {
    let (section, text) = rest.split_once(' ').ok_or("expected a section and a sentence")?;
    let (text, evidence) = match word {
        "says" => (text, Evidence::Case),
        "tested" => {
            let (text, test) = text.rsplit_once(" | ").ok_or("expected ` | ` and the test")?;
            (text, Evidence::Test(test.into()))
        }
        _ => {
            let (text, reason) = text.rsplit_once(" | ").ok_or("expected ` | ` and the reason")?;
            (text, Evidence::Deviation(reason.into()))
        }
    };
    Ok(Sentence { section: section.into(), text: text.into(), evidence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_sentences_and_numbered_lines() {
        let text = "says 5.1 A.\nneeds 2 nodes\n> 1 [0] f()\n---\ndeviates 7.1 B. | because";
        let cases = parse("f.txt", text).unwrap();
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].needs.as_deref(), Some("2 nodes"));
        assert_eq!(cases[0].lines, [Line { number: 3, text: "> 1 [0] f()".into() }]);
        assert_eq!(cases[1].sentences[0].evidence, Evidence::Deviation("because".into()));
        assert!(!cases[0].is_portable() && !cases[1].is_portable());
    }

    #[test]
    fn a_malformed_case_is_reported_with_its_line() {
        let why = |text: &str| parse("f.txt", text).unwrap_err().to_string();
        assert_eq!(why("says 5.1"), "f.txt:1: expected a section and a sentence");
        assert_eq!(why("\ndeviates 5.1 A."), "f.txt:2: expected ` | ` and the reason");
        assert!(why("says 5 A.\n---\n> 1 [0] f()").starts_with("f.txt:3: this case shows no"));
    }
}
