//! A count that may only fall: a file holds the most findings that are allowed.
//!
//! In: the file and the count of today. Out: a failure above it, a note below it.
//! The number is lowered by hand, so that two branches that lower it meet as a conflict of git.

use crate::workspace;

/// What the count means.
#[derive(Debug, PartialEq)]
pub enum Count {
    /// As many as allowed, or fewer and the number can be lowered; the note says which.
    Holds(String),
    /// More than allowed.
    Exceeded(String),
}

/// Compares the count of a check with the number in its file.
pub fn check(name: &str, count: usize) -> Result<Count, String> {
    let file = file(name);
    let text = workspace::text(&file)?.unwrap_or_default();
    let most = text.trim().parse();
    let most = most.map_err(|error| format!("{file} holds no number: {error}"))?;
    Ok(compare(name, count, most))
}

fn file(name: &str) -> String {
    format!("xtask/src/tidy/{name}.count")
}

fn compare(name: &str, count: usize, most: usize) -> Count {
    let file = file(name);
    if count > most {
        return Count::Exceeded(format!(
            "{name}: {count} findings, {file} allows {most}; `cargo xtask tidy {name}` lists them"
        ));
    }
    let lower = match count < most {
        true => format!("; lower {file} from {most} to {count}"),
        false => String::new(),
    };
    Count::Holds(format!("{name}: {count} findings{lower}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_findings_fail_and_fewer_ask_to_lower_the_number() {
        let file = "xtask/src/tidy/x.count";
        assert_eq!(compare("x", 3, 3), Count::Holds("x: 3 findings".to_owned()));
        let lower = format!("x: 2 findings; lower {file} from 3 to 2");
        assert_eq!(compare("x", 2, 3), Count::Holds(lower));
        let exceeded = "x: 4 findings, xtask/src/tidy/x.count allows 3; \
                        `cargo xtask tidy x` lists them";
        assert_eq!(compare("x", 4, 3), Count::Exceeded(exceeded.to_owned()));
    }
}
