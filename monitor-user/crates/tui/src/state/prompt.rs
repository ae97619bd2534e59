//! A line that is being typed: a condition, or a nice value.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use monitor_model::id::Identity;
use monitor_sampling::expression;
use monitor_sampling::expression::{Expression, Fault};

/// What is being typed.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// A condition; the one before is kept, in case this is given up.
    Filter(Option<super::Condition>),
    /// The nice value of a process.
    Nice(Identity, String),
    /// What is watched in a process.
    Watch(Identity, String),
}

/// A line that is being typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// For what.
    pub purpose: Purpose,
    /// What was typed until now.
    pub text: String,
    /// Bytes before the cursor.
    pub at: usize,
}

/// What a key did to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// The text may have changed.
    Edited,
    /// It is as it shall be.
    Done,
    /// It is given up.
    GivenUp,
}

impl Prompt {
    /// With a text to begin with.
    pub fn new(purpose: Purpose, text: &str) -> Self {
        Self { purpose, text: text.to_owned(), at: text.len() }
    }

    /// What the text means, if it is a condition; an empty one is none.
    pub fn condition(&self) -> Option<Result<Expression, Fault>> {
        let asked = matches!(self.purpose, Purpose::Filter(_)) && !self.text.trim().is_empty();
        asked.then(|| expression::parse(&self.text))
    }

    /// The nice value that the text means.
    pub fn nice(&self) -> Result<i32, Fault> {
        let wrong = || Fault { at: 0, message: "a whole number from -20 to 19".into() };
        let number = self.text.trim().parse().map_err(|_| wrong())?;
        if (-20..=19).contains(&number) { Ok(number) } else { Err(wrong()) }
    }

    /// What is wrong with the text.
    pub fn fault(&self) -> Option<Fault> {
        match self.purpose {
            Purpose::Filter(_) => self.condition()?.err(),
            Purpose::Nice(..) if self.text.trim().is_empty() => None,
            Purpose::Nice(..) => self.nice().err(),
            // Whoever watches says what he does not know.
            Purpose::Watch(..) => None,
        }
    }

    /// Takes a key.
    pub fn press(&mut self, event: KeyEvent) -> Typed {
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Enter => return Typed::Done,
            KeyCode::Esc => return Typed::GivenUp,
            KeyCode::Char('c' | 'g') if ctrl => return Typed::GivenUp,
            KeyCode::Char('u') if ctrl => self.cut(0),
            KeyCode::Char('w') if ctrl => self.cut(self.word()),
            KeyCode::Char('a') if ctrl => self.at = 0,
            KeyCode::Char('e') if ctrl => self.at = self.text.len(),
            KeyCode::Char(letter) if !ctrl => self.insert(letter),
            KeyCode::Backspace => self.cut(self.before()),
            KeyCode::Delete => {
                let end = self.after();
                self.text.replace_range(self.at..end, "");
            }
            KeyCode::Left => self.at = self.before(),
            KeyCode::Right => self.at = self.after(),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = self.text.len(),
            _ => {}
        }
        Typed::Edited
    }

    fn insert(&mut self, letter: char) {
        if self.text.len() + letter.len_utf8() <= expression::LONGEST && !letter.is_control() {
            self.text.insert(self.at, letter);
            self.at += letter.len_utf8();
        }
    }

    /// Removes what stands between there and the cursor.
    fn cut(&mut self, from: usize) {
        self.text.replace_range(from..self.at, "");
        self.at = from;
    }

    fn before(&self) -> usize {
        self.text[..self.at].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.at..].chars().next().map_or(self.at, |it| self.at + it.len_utf8())
    }

    /// Where the word before the cursor begins.
    fn word(&self) -> usize {
        let trimmed = self.text[..self.at].trim_end();
        trimmed.rfind(' ').map_or(0, |at| at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[KeyCode]) -> Prompt {
        let mut prompt = Prompt::new(Purpose::Filter(None), "");
        for key in keys {
            let _ = prompt.press(KeyEvent::new(*key, KeyModifiers::NONE));
        }
        prompt
    }

    #[test]
    fn letters_of_any_length_are_typed_and_taken_back() {
        use KeyCode::{Backspace, Char, Delete, Home, Left};
        let it = typed(&[Char('a'), Char('é'), Char('b'), Left, Backspace, Home, Delete]);
        assert_eq!((it.text.as_str(), it.at), ("b", 0));
    }

    #[test]
    fn a_mistake_is_known_while_it_is_typed() {
        let it = Prompt::new(Purpose::Filter(None), "cpu >");
        assert_eq!(it.fault().map(|fault| fault.at), Some(5));
        assert_eq!(typed(&[]).fault(), None);
    }

    #[test]
    fn a_nice_value_has_its_range() {
        let of = |text| Prompt::new(Purpose::Nice(Identity::default(), String::new()), text).nice();
        assert_eq!(of("-20"), Ok(-20));
        assert!(of("20").is_err() && of("x").is_err());
    }
}
