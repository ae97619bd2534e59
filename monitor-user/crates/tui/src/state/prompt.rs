//! The prompt: a line in which a condition, a nice value or an event is typed.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use monitor_model::Identity;
use monitor_sampling::expression::{self, Expression, ParseError};

/// What a prompt is for.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptPurpose {
    /// A condition; the previous one is restored when the prompt is cancelled.
    Filter(Option<super::Condition>),
    /// The nice value of a process.
    Nice(Identity, String),
    /// The event of a rule on a process.
    Watch(Identity, String),
}

/// A prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// What it is for.
    pub purpose: PromptPurpose,
    /// The typed text.
    pub text: String,
    /// The position of the cursor, in bytes.
    pub cursor: usize,
}

/// The result of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptResult {
    /// The text may have changed.
    Edited,
    /// The text was confirmed.
    Done,
    /// The prompt was cancelled.
    Cancelled,
}

impl Prompt {
    /// A prompt with an initial text.
    pub fn new(purpose: PromptPurpose, text: &str) -> Self {
        Self { purpose, text: text.to_owned(), cursor: text.len() }
    }

    /// The parsed condition; `None` if the text is empty or not a condition.
    pub fn condition(&self) -> Option<Result<Expression, ParseError>> {
        let is_condition =
            matches!(self.purpose, PromptPurpose::Filter(_)) && !self.text.trim().is_empty();
        is_condition.then(|| expression::parse(&self.text))
    }

    /// The nice value of the text.
    ///
    /// # Errors
    ///
    /// When it is not a number from -20 to 19.
    pub fn nice(&self) -> Result<i32, ParseError> {
        let wrong =
            || ParseError { at: 0, message: "expected a whole number from -20 to 19".into() };
        let number = self.text.trim().parse().map_err(|_| wrong())?;
        if (-20..=19).contains(&number) { Ok(number) } else { Err(wrong()) }
    }

    /// The event of a rule; a word that begins no event is a function. `None` if there is no text.
    pub fn event(&self) -> Option<String> {
        const VERBS: [&str; 5] = ["call", "return", "signal", "exec", "end"];
        let text = self.text.trim();
        let verb = text.split_whitespace().next()?;
        Some(if VERBS.contains(&verb) { text.to_owned() } else { format!("call {text}") })
    }

    /// The error in the text.
    pub fn fault(&self) -> Option<ParseError> {
        match self.purpose {
            PromptPurpose::Filter(_) => self.condition()?.err(),
            PromptPurpose::Nice(..) if self.text.trim().is_empty() => None,
            PromptPurpose::Nice(..) => self.nice().err(),
            // The source of the rules checks the event.
            PromptPurpose::Watch(..) => None,
        }
    }

    /// Handles a key.
    pub fn press(&mut self, event: KeyEvent) -> PromptResult {
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Enter => return PromptResult::Done,
            KeyCode::Esc => return PromptResult::Cancelled,
            KeyCode::Char('c' | 'g') if ctrl => return PromptResult::Cancelled,
            KeyCode::Char('u') if ctrl => self.cut(0),
            KeyCode::Char('w') if ctrl => self.cut(self.word_start()),
            KeyCode::Char('a') if ctrl => self.cursor = 0,
            KeyCode::Char('e') if ctrl => self.cursor = self.text.len(),
            KeyCode::Char(letter) if !ctrl => self.insert(letter),
            KeyCode::Backspace => self.cut(self.before()),
            KeyCode::Delete => {
                let end = self.after();
                self.text.replace_range(self.cursor..end, "");
            }
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.after(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => {}
        }
        PromptResult::Edited
    }

    fn insert(&mut self, letter: char) {
        if self.text.len() + letter.len_utf8() <= expression::LONGEST && !letter.is_control() {
            self.text.insert(self.cursor, letter);
            self.cursor += letter.len_utf8();
        }
    }

    /// Removes the text from there to the cursor.
    fn cut(&mut self, from: usize) {
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..]
            .chars()
            .next()
            .map_or(self.cursor, |it| self.cursor + it.len_utf8())
    }

    /// The start of the word before the cursor.
    fn word_start(&self) -> usize {
        let trimmed = self.text[..self.cursor].trim_end();
        trimmed.rfind(' ').map_or(0, |at| at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[KeyCode]) -> Prompt {
        let mut prompt = Prompt::new(PromptPurpose::Filter(None), "");
        for key in keys {
            let _ = prompt.press(KeyEvent::new(*key, KeyModifiers::NONE));
        }
        prompt
    }

    #[test]
    fn characters_of_any_length_are_typed_and_deleted() {
        use KeyCode::{Backspace, Char, Delete, Home, Left};
        let it = typed(&[Char('a'), Char('é'), Char('b'), Left, Backspace, Home, Delete]);
        assert_eq!((it.text.as_str(), it.cursor), ("b", 0));
    }

    #[test]
    fn an_error_is_known_while_typing() {
        let it = Prompt::new(PromptPurpose::Filter(None), "cpu >");
        assert_eq!(it.fault().map(|fault| fault.at), Some(5));
        assert_eq!(typed(&[]).fault(), None);
    }

    #[test]
    fn a_function_needs_no_verb() {
        let event = |text| {
            Prompt::new(PromptPurpose::Watch(Identity::default(), String::new()), text).event()
        };
        assert_eq!(event("MPI_Send").as_deref(), Some("call MPI_Send"));
        assert_eq!(event(" call MPI_Send").as_deref(), Some("call MPI_Send"));
        assert_eq!(event("signal TERM").as_deref(), Some("signal TERM"));
        assert_eq!(event(" "), None);
    }

    #[test]
    fn a_nice_value_has_its_range() {
        let nice = |text| {
            Prompt::new(PromptPurpose::Nice(Identity::default(), String::new()), text).nice()
        };
        assert_eq!(nice("-20"), Ok(-20));
        assert!(nice("20").is_err() && nice("x").is_err());
    }
}
