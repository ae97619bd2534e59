//! The words after the name of a command: flags, options with a value, operands.
//!
//! In: the words, and what the command takes. Out: `Arguments`, or why they do not fit.
//! No library: every build waits for this program, and the rules fit on one screen.

/// What a command takes.
pub struct Takes {
    /// Options without a value, as `--check`.
    pub flags: &'static [&'static str],
    /// Options with a value, `--name VALUE` or `--name=VALUE`, and how the help names the value.
    pub options: &'static [(&'static str, &'static str)],
    /// The name of the operands in the help; empty if there are none.
    pub operands: &'static str,
}

impl Takes {
    /// Takes nothing.
    pub const NOTHING: Takes = Takes { flags: &[], options: &[], operands: "" };

    /// Only these flags.
    pub const fn flags(flags: &'static [&'static str]) -> Takes {
        Takes { flags, ..Takes::NOTHING }
    }

    /// One line of the help.
    pub fn help(&self) -> String {
        let flags = self.flags.iter().map(|flag| format!(" [{flag}]"));
        let options = self.options.iter().map(|(name, value)| format!(" [{name} {value}]"));
        let operands = (!self.operands.is_empty()).then(|| format!(" [{}]", self.operands));
        flags.chain(options).chain(operands).collect()
    }
}

/// What was given.
#[derive(Debug, Default, PartialEq)]
pub struct Arguments {
    flags: Vec<String>,
    options: Vec<(String, String)>,
    /// In the order of the command line.
    pub operands: Vec<String>,
}

impl Arguments {
    /// Sorts the words by what the command takes.
    pub fn parse(words: &[&str], takes: &Takes) -> Result<Arguments, String> {
        let mut given = Arguments::default();
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let (name, inline) = match word.split_once('=') {
                Some((name, value)) if word.starts_with("--") => (name, Some(value)),
                _ => (word, None),
            };
            if takes.options.iter().any(|(option, _)| *option == name) {
                let value = inline.or_else(|| words.next().copied());
                let value = value.ok_or_else(|| format!("`{name}` needs a value"))?;
                given.options.push((name.to_owned(), value.to_owned()));
            } else if takes.flags.contains(&word) {
                given.flags.push(word.to_owned());
            } else if word.starts_with('-') || takes.operands.is_empty() {
                return Err(format!("unexpected argument `{word}`"));
            } else {
                given.operands.push(word.to_owned());
            }
        }
        Ok(given)
    }

    /// Whether the flag was given.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|given| given == flag)
    }

    /// The last value of the option.
    pub fn value(&self, option: &str) -> Option<&str> {
        let mut values = self.options.iter().rev();
        values.find(|(name, _)| name == option).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKES: Takes =
        Takes { flags: &["--check"], options: &[("--kernel", "VERSION")], operands: "NAME…" };

    #[test]
    fn an_option_takes_its_value_from_either_side() {
        for words in [["--kernel", "6.1"].as_slice(), &["--kernel=6.1"]] {
            let given = Arguments::parse(words, &TAKES).expect("the option is known");
            assert_eq!(given.value("--kernel"), Some("6.1"));
        }
        let error = Arguments::parse(&["--kernel"], &TAKES).expect_err("the value is missing");
        assert_eq!(error, "`--kernel` needs a value");
    }

    #[test]
    fn flags_and_operands_keep_apart() {
        let given = Arguments::parse(&["a", "--check", "b"], &TAKES).expect("all are known");
        assert!(given.has("--check"));
        assert_eq!(given.operands, ["a", "b"]);
    }

    #[test]
    fn an_unknown_word_is_an_error() {
        assert!(Arguments::parse(&["--chek"], &TAKES).is_err());
        assert!(Arguments::parse(&["x"], &Takes::NOTHING).is_err());
    }

    #[test]
    fn the_help_lists_everything() {
        assert_eq!(TAKES.help(), " [--check] [--kernel VERSION] [NAME…]");
    }
}
