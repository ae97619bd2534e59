//! `cargo xtask bench --against DIR`: this checkout (B) compared with another one (A).
//!
//! In: the commands that run both. Out: for each row the medians of A and B, their ratio, how far
//! two runs of A in a row are apart, and whether B is above that.
//! Runs A A B B, `ROUNDS` times, so that a change of the machine's load reaches both.

use super::rows::{Row, rows};
use crate::step;
use crate::verdict::Outcome;
use std::process::{Command, Stdio};

const ROUNDS: usize = 5;
/// A ratio up to here is no regression, whatever the noise is.
const TOLERATED: f64 = 1.03;

/// Runs both and prints the comparison.
pub fn run(theirs: Command, ours: Command, rounds: Option<&str>) -> Outcome {
    let rounds = match rounds {
        Some(count) => count.parse().map_err(|error| format!("--rounds {count}: {error}"))?,
        None => ROUNDS,
    };
    let mut both = [("A", theirs), ("B", ours)];
    let mut runs = [Vec::new(), Vec::new()];
    for round in 1..=rounds {
        for ((letter, command), runs) in both.iter_mut().zip(&mut runs) {
            for half in 1..=2 {
                eprintln!("round {round} of {rounds}: {letter}{half}");
                runs.push(rows(&output(command)?));
            }
        }
    }
    let [theirs, ours] = runs;
    print!("{}", report(&compare(&theirs, &ours)));
    Ok(())
}

/// The standard output of a run; its errors and cargo's go to the terminal.
fn output(command: &mut Command) -> Result<String, String> {
    let line = step::line(command);
    eprintln!("$ {line}");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{line}` failed ({})", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// One row of both.
#[derive(Debug, PartialEq)]
struct Compared {
    bench: String,
    name: String,
    unit: String,
    /// The median of A, of B.
    medians: [f64; 2],
    ratio: f64,
    /// The largest ratio of two runs of A in a row; the smallest is its inverse.
    noise: f64,
}

impl Compared {
    fn is_above(&self) -> bool {
        self.ratio > TOLERATED && self.ratio > self.noise
    }
}

fn compare(theirs: &[Vec<Row>], ours: &[Vec<Row>]) -> Vec<Compared> {
    let Some(first) = ours.first() else { return Vec::new() };
    let compared = first.iter().filter_map(|row| {
        let other = counterpart(row, first, theirs.first()?)?;
        let theirs = values(theirs, other);
        let medians = [median(theirs.clone()), median(values(ours, row))];
        let pairs = theirs.chunks_exact(2).map(|pair| ratio(pair[0], pair[1]));
        let noise = pairs.map(|ratio| ratio.max(1.0 / ratio)).fold(1.0, f64::max);
        Some(Compared {
            bench: row.bench.clone(),
            name: row.name.clone(),
            unit: row.unit.clone(),
            medians,
            ratio: ratio(medians[0], medians[1]),
            noise,
        })
    });
    compared.collect()
}

/// The row of A that measures the same: by name, or by its place where a bench has as many rows in
/// both and the name has changed.
fn counterpart<'a>(row: &Row, ours: &[Row], theirs: &'a [Row]) -> Option<&'a Row> {
    let is_same = |a: &Row, b: &Row| (&a.bench, &a.name, a.repeat) == (&b.bench, &b.name, b.repeat);
    if let Some(found) = theirs.iter().find(|other| is_same(other, row)) {
        return Some(found);
    }
    let of_bench = |rows: &'a [Row]| rows.iter().filter(|other| other.bench == row.bench);
    let ours: Vec<&Row> = ours.iter().filter(|other| other.bench == row.bench).collect();
    let theirs: Vec<&Row> = of_bench(theirs).collect();
    let place = ours.iter().position(|other| is_same(other, row))?;
    let other = theirs.get(place).filter(|_| theirs.len() == ours.len())?;
    let is_free = other.unit == row.unit && !ours.iter().any(|mine| is_same(mine, other));
    is_free.then_some(*other)
}

/// The values of a row in all runs.
fn values(runs: &[Vec<Row>], row: &Row) -> Vec<f64> {
    let is_row = |other: &&Row| {
        (&other.bench, &other.name, other.repeat) == (&row.bench, &row.name, row.repeat)
    };
    runs.iter().filter_map(|rows| rows.iter().find(is_row)).map(|row| row.value).collect()
}

/// `after / before`; nothing against nothing is one.
fn ratio(before: f64, after: f64) -> f64 {
    if before == after { 1.0 } else { after / before }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) && !values.is_empty() {
        return f64::midpoint(values[middle - 1], values[middle]);
    }
    values.get(middle).copied().unwrap_or(f64::NAN)
}

/// Lines of at most 80 columns; a long name has a line of its own.
fn report(compared: &[Compared]) -> String {
    let mut text = String::new();
    let mut bench = "";
    for row in compared {
        if row.bench != bench {
            let (a, b, ratio, noise) = ("A", "B", "B/A", "A/A");
            text += &format!("\n{:<30}{a:>10}{b:>10} {:<6}{ratio:>7} {noise}\n", row.bench, "");
            bench = &row.bench;
        }
        let name = if row.name.chars().count() > 28 {
            text += &format!("  {}\n", row.name);
            ""
        } else {
            &row.name
        };
        let [a, b] = row.medians;
        let (low, high) = (1.0 / row.noise, row.noise);
        let above = if row.is_above() { " ABOVE" } else { "" };
        text += &format!(
            "  {name:<28}{a:>10.3}{b:>10.3} {:<6}{:>7.3} {low:.2}-{high:.2}{above}\n",
            row.unit, row.ratio
        );
    }
    let above = compared.iter().filter(|row| row.is_above()).count();
    text + &format!("\n{above} of {} rows above {TOLERATED} and the noise of A\n", compared.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rows: &[(&str, f64)]) -> Vec<Row> {
        let row = |&(name, value): &(&str, f64)| Row {
            bench: "watch".to_owned(),
            name: name.to_owned(),
            repeat: 0,
            value,
            unit: "us".to_owned(),
        };
        rows.iter().map(row).collect()
    }

    fn all(name: &str, values: &[f64]) -> Vec<Vec<Row>> {
        values.iter().map(|&value| run(&[(name, value)])).collect()
    }

    #[track_caller]
    fn check(theirs: &[f64], ours: &[f64], ratio: f64, noise: f64, is_above: bool) {
        let compared = compare(&all("cpu", theirs), &all("cpu", ours));
        let [row] = &compared[..] else { panic!("{} rows", compared.len()) };
        assert!((row.ratio - ratio).abs() < 1e-9, "{row:?}");
        assert!((row.noise - noise).abs() < 1e-9, "{row:?}");
        assert_eq!(row.is_above(), is_above, "{row:?}");
    }

    #[test]
    fn a_row_is_above_when_it_is_beyond_three_percent_and_beyond_the_noise() {
        check(&[10.0, 10.0, 10.0, 10.0], &[10.2, 10.2], 1.02, 1.0, false);
        check(&[10.0, 10.0, 10.0, 10.0], &[11.0, 11.0], 1.1, 1.0, true);
        check(&[8.0, 10.0, 10.0, 10.0], &[11.0, 11.0], 1.1, 1.25, false);
        check(&[0.0, 0.0], &[0.0, 0.0], 1.0, 1.0, false);
    }

    #[test]
    fn a_row_with_a_new_name_is_found_by_its_place() {
        let theirs = vec![run(&[("a", 1.0), ("old", 2.0), ("c", 3.0)])];
        let ours = vec![run(&[("a", 1.0), ("new", 4.0), ("c", 3.0)])];
        let found = compare(&theirs, &ours);
        let found: Vec<_> = found.iter().map(|row| (row.name.as_str(), row.ratio)).collect();
        assert_eq!(found, [("a", 1.0), ("new", 2.0), ("c", 1.0)]);
        let ours = vec![run(&[("a", 1.0), ("new", 4.0)])];
        assert_eq!(compare(&theirs, &ours).len(), 1);
    }

    #[test]
    fn the_report_is_at_most_eighty_columns_wide() {
        let name = "the lateness of 53 monitors at 1 Hz beside them";
        let text = report(&compare(&all(name, &[1.0, 1.0]), &all(name, &[12.5, 12.5])));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("ABOVE"), "{text}");
        assert!(text.ends_with("1 of 1 rows above 1.03 and the noise of A\n"), "{text}");
    }
}
