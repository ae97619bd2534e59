//! A list to choose from: columns, orders, groups, signals. Typed letters narrow it.

use crate::rule::Rule;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use monitor_model::event::Signal;
use monitor_model::field::{Category, ProcessField};
use monitor_model::group::By;
use monitor_model::id::Identity;

/// What is chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// What to sort by.
    Sort,
    /// What to add up by.
    Group,
    /// Which columns are shown.
    Columns,
    /// Which signal a process gets.
    Signal(Identity, String),
    /// Which rule is removed.
    Unwatch,
}

/// What an entry stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// A field.
    Field(ProcessField),
    /// What to add up by; nothing for single processes.
    By(Option<By>),
    /// A signal.
    Signal(u32),
    /// A rule, by its number.
    Rule(u32),
}

/// An entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What it stands for.
    pub choice: Choice,
    /// Its name.
    pub label: String,
    /// What it means.
    pub note: &'static str,
    /// Whether it is shown or chosen now.
    pub on: bool,
}

/// A list to choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct Menu {
    /// For what.
    pub purpose: Purpose,
    /// All entries.
    pub entries: Vec<Entry>,
    /// What was typed to narrow it.
    pub typed: String,
    /// The entry under the bar, among those that are left.
    pub at: usize,
}

/// What a key did to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Picked {
    /// The bar may have moved.
    Moved,
    /// This was chosen.
    Choice(Choice),
    /// It is given up, or done.
    Closed,
}

impl Menu {
    /// With these entries.
    pub fn new(purpose: Purpose, entries: Vec<Entry>) -> Self {
        let at = entries.iter().position(|entry| entry.on).unwrap_or(0);
        let at = if purpose == Purpose::Columns { 0 } else { at };
        Self { purpose, entries, typed: String::new(), at }
    }

    /// The entries that are left.
    pub fn left(&self) -> impl Iterator<Item = &Entry> {
        let typed = self.typed.to_lowercase();
        self.entries.iter().filter(move |it| it.label.to_lowercase().contains(&typed))
    }

    /// Its heading.
    pub fn title(&self) -> String {
        match &self.purpose {
            Purpose::Sort => "Sort by".into(),
            Purpose::Group => "Add up by".into(),
            Purpose::Columns => "Columns: Space shows or hides".into(),
            Purpose::Unwatch => "Remove the rule".into(),
            Purpose::Signal(id, name) => format!("Signal to {} ({name})", id.pid.0),
        }
    }

    /// Takes a key.
    pub fn press(&mut self, event: KeyEvent) -> Picked {
        let last = self.left().count().saturating_sub(1);
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Esc => return Picked::Closed,
            KeyCode::Char('c') if ctrl => return Picked::Closed,
            KeyCode::Enter if self.purpose == Purpose::Columns => return Picked::Closed,
            KeyCode::Char(' ') if self.purpose == Purpose::Columns => return self.picked(),
            KeyCode::Enter => return self.picked(),
            KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Down => self.at = (self.at + 1).min(last),
            KeyCode::PageUp => self.at = self.at.saturating_sub(10),
            KeyCode::PageDown => self.at = (self.at + 10).min(last),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = last,
            KeyCode::Backspace => self.narrow(|typed| typed.truncate(before_last(typed))),
            KeyCode::Char(letter) if !ctrl => self.narrow(|typed| typed.push(letter)),
            _ => {}
        }
        Picked::Moved
    }

    fn narrow(&mut self, edit: impl FnOnce(&mut String)) {
        edit(&mut self.typed);
        self.at = 0;
    }

    /// What is under the bar.
    pub fn picked(&self) -> Picked {
        let entry = self.left().nth(self.at);
        entry.map_or(Picked::Moved, |entry| Picked::Choice(entry.choice))
    }
}

/// Where the last letter begins.
fn before_last(text: &str) -> usize {
    text.char_indices().next_back().map_or(0, |(at, _)| at)
}

/// An entry for a field.
pub fn field(field: ProcessField, on: bool) -> Entry {
    let label = format!("{:<11} {}", field.field().title, field.field().name);
    Entry { choice: Choice::Field(field), label, note: field.field().help, on }
}

/// Entries for every way to add up.
pub fn groups(now: Option<By>) -> Vec<Entry> {
    let all = [
        (None, "processes", "every process by itself"),
        (Some(By::Job), "job", "batch job, MPI namespace, pod, container, session or unit"),
        (Some(By::User), "user", "real user"),
        (Some(By::Comm), "command", "command name"),
        (Some(By::Cgroup), "cgroup", "path in the unified hierarchy"),
        (Some(By::Container), "container", "as the path of the cgroup tells it"),
    ];
    let entry = |(by, label, note): (Option<By>, &str, &'static str)| Entry {
        choice: Choice::By(by),
        label: label.into(),
        note,
        on: by == now,
    };
    all.map(entry).into()
}

/// Entries for every rule.
pub fn rules(all: &[Rule]) -> Vec<Entry> {
    let entry = |it: &Rule| Entry {
        choice: Choice::Rule(it.number),
        label: format!("{} in {} ({})", it.event, it.id.pid.0, it.name),
        note: "",
        on: false,
    };
    all.iter().map(entry).collect()
}

/// What people send most often comes first.
const OFTEN: [u32; 9] = [15, 9, 2, 1, 19, 18, 3, 10, 12];

/// Entries for every signal.
pub fn signals() -> Vec<Entry> {
    let rest = (1..=64).filter(|number| !OFTEN.contains(number));
    let named = |number: u32| {
        let name = Signal { number, code: 0, thread: None }.name()?;
        let label = format!("{number:>2} {name}");
        Some(Entry { choice: Choice::Signal(number), label, note: "", on: false })
    };
    OFTEN.into_iter().chain(rest).filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_letters_narrow_the_list() {
        let purpose = Purpose::Signal(Identity::default(), String::new());
        let mut menu = Menu::new(purpose, signals());
        for letter in "usr2".chars() {
            let _ = menu.press(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE));
        }
        assert_eq!(menu.picked(), Picked::Choice(Choice::Signal(12)));
    }

    #[test]
    fn the_bar_begins_at_what_holds_now() {
        let menu = Menu::new(Purpose::Group, groups(Some(By::Comm)));
        assert_eq!(menu.picked(), Picked::Choice(Choice::By(Some(By::Comm))));
    }
}
