//! `cargo xtask tidy words [PATH…]`: the word list, and where the workspace uses a word of it.
//!
//! In: `words.txt`, which explains its own format, and the files of `SCOPE`. Out: each use as
//! `file:line`, with what to write instead. Golden outputs and fixtures are not read.

use super::files::Files;
use super::finding::CountedFinding;
use super::lexer::{Kind, Piece, pieces};
use super::terms::{self, Context, Term};
use std::collections::HashMap;

const LIST: &str = "xtask/src/tidy/words.txt";

/// What is read: beginnings and endings of paths.
const SCOPE: &[(&str, &str)] = &[
    ("monitor-user/", ".rs"),
    ("monitor-ebpf/", ".rs"),
    ("xtask/", ".rs"),
    ("tests/", ".rs"),
    ("monitor-user/", ".md"),
    ("tests/", ".md"),
    ("docs/", ".md"),
    ("README.md", ""),
    ("tests/request/", ".txt"),
];
/// What is recorded, not written.
const RECORDED: &[&str] = &["tests/golden/", "tests/fixture/"];

/// All uses in the workspace.
pub fn find(files: &Files) -> Result<Vec<CountedFinding>, String> {
    let is_list = |(path, _): &&(String, String)| path == LIST;
    let list = files.texts.iter().find(is_list).map_or("", |(_, text)| text);
    let list = WordList::parse(list)?;
    let read = files.texts.iter().filter(|(path, _)| is_read(path));
    Ok(read.flat_map(|(path, text)| list.uses(path, text)).collect())
}

fn is_read(path: &str) -> bool {
    SCOPE.iter().any(|(begin, end)| path.starts_with(begin) && path.ends_with(end))
        && !RECORDED.iter().any(|folder| path.starts_with(folder))
}

/// `words.txt`.
#[derive(Default)]
struct WordList {
    entries: Vec<WordEntry>,
    /// Entries by their first word.
    by_word: HashMap<String, Vec<usize>>,
    /// Names that others rely on.
    frozen: Vec<String>,
    /// Pages that discuss names of the list, in backticks.
    discussed: Vec<String>,
}

/// One spelling of the list.
struct WordEntry {
    /// With its kind, as `fn:look`.
    shown: String,
    words: Vec<String>,
    matches: Matches,
    allowed: Allowed,
    instead: String,
}

/// What an entry is compared with.
#[derive(Clone, Copy, PartialEq)]
enum Matches {
    /// Every word.
    Words,
    /// A whole name that is defined after one of these keywords.
    Defined(&'static [&'static str]),
    /// The stem of a file or a folder.
    File,
    /// The argument of a closure whose body is a block.
    Closure,
}

/// Where a word is right.
#[derive(Clone, Default)]
struct Allowed {
    contexts: Vec<Context>,
    /// `*` stands for any part of a path.
    paths: Vec<String>,
    phrases: Vec<Vec<String>>,
}

impl WordList {
    fn parse(text: &str) -> Result<WordList, String> {
        let mut list = WordList::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            let names = |rest: &str| rest.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            if let Some(rest) = line.strip_prefix("frozen:") {
                list.frozen.extend(names(rest));
            } else if let Some(rest) = line.strip_prefix("discussed:") {
                list.discussed.extend(names(rest));
            } else if !line.is_empty() && !line.starts_with('#') {
                let columns: Vec<&str> = line.split('|').map(str::trim).collect();
                let [word, allowed, instead] = columns[..] else {
                    return Err(format!("{LIST}:{number}: a line has three columns"));
                };
                let allowed = Allowed::parse(allowed)
                    .map_err(|what| format!("{LIST}:{number}: {what} is no context"))?;
                list.add(word, &allowed, instead);
            }
        }
        Ok(list)
    }

    fn add(&mut self, words: &str, allowed: &Allowed, instead: &str) {
        let (kind, forms) = match words.split_once(':') {
            Some((kind, forms)) => (kind, forms),
            None => ("", words),
        };
        let matches = match kind {
            "fn" => Matches::Defined(&["fn"]),
            "type" => Matches::Defined(&["struct", "enum", "trait", "union", "type"]),
            "file" => Matches::File,
            "closure" => Matches::Closure,
            _ => Matches::Words,
        };
        for form in forms.split(',').map(str::trim) {
            let words = form.split([' ', '\'']).map(str::to_owned).collect::<Vec<_>>();
            let first = words.first().cloned().unwrap_or_default();
            self.by_word.entry(first).or_default().push(self.entries.len());
            let shown = if kind.is_empty() { form.to_owned() } else { format!("{kind}:{form}") };
            let (allowed, instead) = (allowed.clone(), instead.to_owned());
            self.entries.push(WordEntry { shown, words, matches, allowed, instead });
        }
    }

    /// The lines of one file that use an entry, with its index.
    fn check(&self, path: &str, text: &str) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut name_terms = Vec::new();
        for part in path.split(['/', '.']) {
            terms::add_name(part, 1, Context::Ident, &mut name_terms);
        }
        self.check_terms(path, &name_terms, &mut found);
        self.check_stem(path, &mut found);
        if path.ends_with(".rs") {
            let pieces = pieces(text);
            self.check_terms(path, &terms::of_rust(&pieces), &mut found);
            self.check_definitions(path, &pieces, &mut found);
        } else if path.ends_with(".md") {
            self.check_terms(path, &terms::of_markdown(text), &mut found);
        } else {
            self.check_terms(path, &terms::of_cases(text), &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn uses(&self, path: &str, text: &str) -> Vec<CountedFinding> {
        let found = self.check(path, text).into_iter().map(|(line, index)| {
            let WordEntry { shown, instead, .. } = &self.entries[index];
            let text = format!("{path}:{line}: `{shown}`: {instead}");
            CountedFinding { path: path.to_owned(), key: shown.clone(), text }
        });
        found.collect()
    }

    fn check_terms(&self, path: &str, terms: &[Term], found: &mut Vec<(usize, usize)>) {
        let is_discussed = self.discussed.iter().any(|page| page == path);
        for (at, term) in terms.iter().enumerate() {
            let is_exempt = match term.context {
                Context::Code => is_discussed || self.frozen.contains(&term.name),
                Context::Message => self.frozen.contains(&term.name),
                Context::Ident | Context::Prose => false,
            };
            if is_exempt {
                continue;
            }
            for &index in self.by_word.get(&term.word).into_iter().flatten() {
                let entry = &self.entries[index];
                if entry.matches == Matches::Words
                    && is_at(terms, at, &entry.words)
                    && !entry.allowed.holds(path, terms, at)
                {
                    found.push((term.line, index));
                }
            }
        }
    }

    fn check_stem(&self, path: &str, found: &mut Vec<(usize, usize)>) {
        let mut parts: Vec<&str> = path.split('/').collect();
        let last = parts.pop().and_then(|last| last.split('.').next());
        for name in parts.into_iter().chain(last) {
            let indices = self.named(path, name, |matches| matches == Matches::File);
            found.extend(indices.map(|index| (1, index)));
        }
    }

    fn check_definitions(&self, path: &str, pieces: &[Piece], found: &mut Vec<(usize, usize)>) {
        for pair in pieces.windows(2) {
            let [keyword, name] = pair else { continue };
            if keyword.kind == Kind::Name && name.kind == Kind::Name {
                let defines = |matches| match matches {
                    Matches::Defined(keywords) => keywords.contains(&keyword.text),
                    _ => false,
                };
                let indices = self.named(path, name.text, defines);
                found.extend(indices.map(|index| (name.line, index)));
            }
        }
        for four in pieces.windows(4) {
            let [open, name, close, body] = four else { continue };
            if (open.text, close.text, body.text) == ("|", "|", "{") && name.kind == Kind::Name {
                let indices = self.named(path, name.text, |matches| matches == Matches::Closure);
                found.extend(indices.map(|index| (name.line, index)));
            }
        }
    }

    /// The entries of a kind that are this whole name, unless they are allowed on this path.
    fn named(
        &self,
        path: &str,
        name: &str,
        is_kind: impl Fn(Matches) -> bool,
    ) -> impl Iterator<Item = usize> {
        self.by_word.get(name).into_iter().flatten().copied().filter(move |index| {
            let entry = &self.entries[*index];
            is_kind(entry.matches) && !entry.allowed.is_path(path)
        })
    }
}

impl Allowed {
    /// `-`, or contexts, paths and phrases between commas.
    fn parse(text: &str) -> Result<Allowed, String> {
        let mut allowed = Allowed::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty() && *item != "-") {
            match item {
                "ident" => allowed.contexts.extend([Context::Ident, Context::Code]),
                "prose" => allowed.contexts.push(Context::Prose),
                "message" => allowed.contexts.push(Context::Message),
                _ if item.starts_with('"') => {
                    let words = item.trim_matches('"').split([' ', '-']);
                    allowed.phrases.push(words.map(str::to_owned).collect());
                }
                _ if item.contains(['/', '*']) => allowed.paths.push(item.to_owned()),
                _ => return Err(format!("`{item}`")),
            }
        }
        Ok(allowed)
    }

    fn is_path(&self, path: &str) -> bool {
        self.paths.iter().any(|pattern| is_match(pattern, path))
    }

    fn holds(&self, path: &str, terms: &[Term], at: usize) -> bool {
        let is_part = |phrase: &Vec<String>| {
            (0..phrase.len()).any(|before| at >= before && is_at(terms, at - before, phrase))
        };
        self.contexts.contains(&terms[at].context)
            || self.is_path(path)
            || self.phrases.iter().any(is_part)
    }
}

/// Whether the words of a phrase begin at this term.
fn is_at(terms: &[Term], at: usize, phrase: &[String]) -> bool {
    let Some(terms) = terms.get(at..at + phrase.len()) else { return false };
    terms.iter().zip(phrase).all(|(term, word)| term.word == *word)
        && terms.iter().skip(1).all(|term| term.joined)
}

/// Whether the path is as the pattern says; `*` is any text, `/` included.
fn is_match(pattern: &str, path: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(previous) = last.replace(part) {
            let Some((_, after)) = rest.split_once(previous) else { return false };
            rest = after;
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
# A comment.
blue, blues | \"deep blue\", tests/it/* | azure
in lieu of | - | through
red | ident | crimson
green | prose, message | emerald
fn:look | - | a verb that says what it does
type:Thing | tests/* | the thing's name
file:act | - | a noun
closure:it | - | the thing's name
frozen: mon_blue
discussed: docs/STYLE.md
";

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[(usize, &str)]) {
        let list = WordList::parse(LIST).expect("the list is well formed");
        let found = list.check(path, text);
        let found: Vec<_> =
            found.iter().map(|&(line, index)| (line, list.entries[index].shown.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn identifiers_comments_and_messages_are_read() {
        let text = "// A blue one.\nfn is_blue() { f(\"all blues\") }\nstruct BlueBox;\n";
        check("xtask/src/x.rs", text, &[(1, "blue"), (2, "blue"), (2, "blues"), (3, "blue")]);
        check("tests/it/x.rs", text, &[]);
        check("xtask/src/x.rs", "// bluer\nfn blueness() {}", &[]);
    }

    #[test]
    fn a_phrase_is_seen_across_lines_and_allowed_where_the_list_says() {
        check("xtask/src/x.rs", "// in lieu\n// of\n", &[(1, "in lieu of")]);
        check("xtask/src/x.rs", "// in lieu. Of", &[]);
        check("xtask/src/x.rs", "// a deep blue sea", &[]);
        check("docs/x.md", "deep-blue, deep. Blue", &[(1, "blue")]);
    }

    #[test]
    fn a_context_of_the_second_column_is_right() {
        check("xtask/src/x.rs", "fn red() {} // red", &[(1, "red")]);
        check("xtask/src/x.rs", "fn green() { f(\"green\") } // green", &[(1, "green")]);
    }

    #[test]
    fn definitions_files_and_closures_have_entries_of_their_own() {
        check("xtask/src/x.rs", "fn look() { look() }\nfn look_up() {}", &[(1, "fn:look")]);
        check("xtask/src/x.rs", "enum Thing {}\nfn f(x: Thing) {}", &[(1, "type:Thing")]);
        check("tests/it/x.rs", "enum Thing {}", &[]);
        check("xtask/src/act.rs", "", &[(1, "file:act")]);
        check("xtask/src/act/x.rs", "", &[(1, "file:act")]);
        check("xtask/src/x.rs", "f(|it| g(it));\nf(|it| { g(it) })", &[(2, "closure:it")]);
    }

    #[test]
    fn frozen_names_and_discussed_words_are_right() {
        check("xtask/src/x.rs", "f(\"mon_blue\") // `mon_blue`", &[]);
        check("xtask/src/x.rs", "f(mon_blue)", &[(1, "blue")]);
        check("docs/x.md", "`mon_blue` and `blue`", &[(1, "blue")]);
        check("docs/STYLE.md", "`blue`\nblue", &[(2, "blue")]);
    }

    #[test]
    fn a_file_name_is_an_identifier() {
        check("docs/journal/2026-11-20-blue.md", "", &[(1, "blue")]);
    }

    #[test]
    fn a_star_is_any_part_of_a_path() {
        assert!(is_match("tests/it/*", "tests/it/a/b.rs"));
        assert!(is_match("*/proc/*.rs", "monitor-user/crates/proc/src/stat.rs"));
        assert!(!is_match("*/proc/*.rs", "monitor-user/crates/procs/stat.rs"));
        assert!(is_match("README.md", "README.md"));
        assert!(!is_match("README.md", "README.md.bak"));
    }

    #[test]
    fn a_line_of_the_list_has_three_columns() {
        assert!(WordList::parse("blue | azure").is_err());
        assert!(WordList::parse("blue | everywhere | azure").is_err());
    }

    #[test]
    fn the_list_of_the_workspace_can_be_read() {
        let text = include_str!("words.txt");
        let list = WordList::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert!(list.entries.len() > 90);
    }
}
