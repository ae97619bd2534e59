//! The output of `tests/bench` as rows: a bench, a name, a value, a unit.
//!
//! In: the text that one run prints. Out: each line of `tests/bench/verdict.rs`, which has three
//! digits after the point; other lines are headers, notes and tables of other programs.

use std::collections::HashMap;

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub bench: String,
    pub name: String,
    /// How many rows of the bench before this one have the same name.
    pub repeat: usize,
    pub value: f64,
    pub unit: String,
}

/// All rows of one run, in order.
pub fn rows(output: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut bench = String::new();
    let mut repeats: HashMap<(String, String), usize> = HashMap::new();
    for line in output.lines() {
        if let Some(title) = title(line) {
            title.clone_into(&mut bench);
            continue;
        }
        let Some((name, value, unit)) = row(line) else { continue };
        let count = repeats.entry((bench.clone(), name.to_owned())).or_default();
        let (name, unit) = (name.to_owned(), unit.to_owned());
        rows.push(Row { bench: bench.clone(), name, repeat: *count, value, unit });
        *count += 1;
    }
    rows
}

/// The name of a bench in its title, `watch (load 0.42)`.
fn title(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(" (load ")?;
    let is_name = !name.starts_with(' ') && !name.contains(' ');
    (is_name && rest.ends_with(')')).then_some(name)
}

/// `  a name                     1.234 us     <= 2  ok`.
fn row(line: &str) -> Option<(&str, f64, &str)> {
    let line = line.strip_prefix("  ")?;
    let (measured, _) = line.split_once(" <= ").unwrap_or((line, ""));
    let value = measured.split_whitespace().rfind(|word| is_value(word))?;
    let at = measured.rfind(&format!(" {value}"))?;
    let (name, rest) = measured.split_at(at);
    let unit = rest.trim_start().trim_start_matches(value).trim();
    Some((name.trim(), value.parse().ok()?, unit))
}

fn is_value(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let word = word.strip_prefix('-').unwrap_or(word);
    word.split_once('.')
        .is_some_and(|(whole, part)| digits(whole) && digits(part) && part.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_bench_a_name_a_value_and_a_unit() {
        let output = "Linux 6.18 on 2 x CPU, memory 1 kB, load 0.10\n\nwatch (load 0.12)\n\
            \x20 CPU per process, 5,000 / 1,000 processes      1.050 x      <= 1.1  ok\n\
            \x20 its resident memory      12.000 MB     \n\
            \x20 its resident memory      13.500 MB     <= 16  ok\n\
            \x20 12 processes\n\
            \x20 a peer      1.25 % core,      3.1 KiB/s\n\
            \nservice (load 0.12)\n\
            \x20 CPU      0.125 % core <= 5  ok\n\
            \x20 dropped      0.000        <= 0  ok\n";
        let row = |bench: &str, name: &str, repeat, value, unit: &str| Row {
            bench: bench.to_owned(),
            name: name.to_owned(),
            repeat,
            value,
            unit: unit.to_owned(),
        };
        let expected = [
            row("watch", "CPU per process, 5,000 / 1,000 processes", 0, 1.05, "x"),
            row("watch", "its resident memory", 0, 12.0, "MB"),
            row("watch", "its resident memory", 1, 13.5, "MB"),
            row("service", "CPU", 0, 0.125, "% core"),
            row("service", "dropped", 0, 0.0, ""),
        ];
        assert_eq!(rows(output), expected);
    }
}
