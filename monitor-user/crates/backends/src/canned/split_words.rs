//! Words of a line of a script.
//!
//! In: a line. Out: its words, without comment. A word may hold spaces between double quotes;
//! there is no other escape, so a quote itself cannot be written.

/// The words, or why the line has none that make sense.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => {
                quoted = !quoted;
                let _started = word.get_or_insert_default();
            }
            '#' if !quoted && word.is_none() => break,
            _ if letter.is_whitespace() && !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if quoted {
        return Err("a quote that nothing closes".to_owned());
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, want: &[&str]) {
        assert_eq!(words(line).unwrap(), want);
    }

    #[test]
    fn quotes_hold_spaces_and_comments_end_the_line() {
        check("process 7 cmdline=\"sleep  5\" # rest", &["process", "7", "cmdline=sleep  5"]);
        check("comm=a#b", &["comm=a#b"]);
        check("comm=\"\"", &["comm="]);
        check("   # nothing", &[]);
    }

    #[test]
    fn an_open_quote_is_refused() {
        assert!(words("comm=\"x").is_err());
    }
}
