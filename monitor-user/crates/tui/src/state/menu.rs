//! Lists to select from: columns, orders, groups, signals, rules. Typed text filters the entries.

use crate::rule::Rule;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use monitor_model::{Category, GroupBy, Identity, ProcessField, Signal};

/// What a list is for.
#[derive(Clone, Debug, PartialEq)]
pub enum MenuPurpose {
    /// What to sort by.
    Sort,
    /// What to group by.
    Group,
    /// Which columns are shown.
    Columns,
    /// Which signal a process gets.
    Signal(Identity, String),
    /// Which rule is removed.
    Unwatch,
}

/// The value of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MenuChoice {
    /// A field.
    Field(ProcessField),
    /// What to group by; `None` for single processes.
    By(Option<GroupBy>),
    /// A signal.
    Signal(u32),
    /// A rule, by number.
    Rule(u32),
}

/// An entry.
#[derive(Clone, Debug, PartialEq)]
pub struct MenuEntry {
    /// Its value.
    pub choice: MenuChoice,
    /// Its text.
    pub label: String,
    /// Its explanation.
    pub note: &'static str,
    /// Whether it is selected now.
    pub is_on: bool,
}

/// A list.
#[derive(Clone, Debug, PartialEq)]
pub struct Menu {
    /// What it is for.
    pub purpose: MenuPurpose,
    /// All entries.
    pub entries: Vec<MenuEntry>,
    /// The text that filters the entries.
    pub typed: String,
    /// The index of the selected entry, among the matching ones.
    pub selected_index: usize,
}

/// The result of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MenuResult {
    /// The selection may have moved.
    Moved,
    /// An entry was chosen.
    Choice(MenuChoice),
    /// The list was closed.
    Closed,
}

impl Menu {
    /// A list of entries.
    pub fn new(purpose: MenuPurpose, entries: Vec<MenuEntry>) -> Self {
        let at = entries.iter().position(|entry| entry.is_on).unwrap_or(0);
        let selected_index = if purpose == MenuPurpose::Columns { 0 } else { at };
        Self { purpose, entries, typed: String::new(), selected_index }
    }

    /// The entries that match the typed text.
    pub fn matching(&self) -> impl Iterator<Item = &MenuEntry> {
        let typed = self.typed.to_lowercase();
        self.entries.iter().filter(move |it| it.label.to_lowercase().contains(&typed))
    }

    /// The title.
    pub fn title(&self) -> String {
        match &self.purpose {
            MenuPurpose::Sort => "Sort by".into(),
            MenuPurpose::Group => "Add up by".into(),
            MenuPurpose::Columns => "Columns: Space shows or hides".into(),
            MenuPurpose::Unwatch => "Remove the rule".into(),
            MenuPurpose::Signal(id, name) => format!("Signal to {} ({name})", id.pid.0),
        }
    }

    /// Handles a key.
    pub fn press(&mut self, event: KeyEvent) -> MenuResult {
        let last = self.matching().count().saturating_sub(1);
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Esc => return MenuResult::Closed,
            KeyCode::Char('c') if ctrl => return MenuResult::Closed,
            KeyCode::Enter if self.purpose == MenuPurpose::Columns => return MenuResult::Closed,
            KeyCode::Char(' ') if self.purpose == MenuPurpose::Columns => return self.selected(),
            KeyCode::Enter => return self.selected(),
            KeyCode::Up => self.selected_index = self.selected_index.saturating_sub(1),
            KeyCode::Down => self.selected_index = (self.selected_index + 1).min(last),
            KeyCode::PageUp => self.selected_index = self.selected_index.saturating_sub(10),
            KeyCode::PageDown => self.selected_index = (self.selected_index + 10).min(last),
            KeyCode::Home => self.selected_index = 0,
            KeyCode::End => self.selected_index = last,
            KeyCode::Backspace => self.narrow(|typed| typed.truncate(before_last(typed))),
            KeyCode::Char(letter) if !ctrl => self.narrow(|typed| typed.push(letter)),
            _ => {}
        }
        MenuResult::Moved
    }

    fn narrow(&mut self, edit: impl FnOnce(&mut String)) {
        edit(&mut self.typed);
        self.selected_index = 0;
    }

    /// Chooses the selected entry.
    pub fn selected(&self) -> MenuResult {
        let entry = self.matching().nth(self.selected_index);
        entry.map_or(MenuResult::Moved, |entry| MenuResult::Choice(entry.choice))
    }
}

/// The start of the last character.
fn before_last(text: &str) -> usize {
    text.char_indices().next_back().map_or(0, |(at, _)| at)
}

/// The entry of a field.
pub fn field(field: ProcessField, on: bool) -> MenuEntry {
    let label = format!("{:<11} {}", field.field().title, field.field().name);
    MenuEntry { choice: MenuChoice::Field(field), label, note: field.field().help, is_on: on }
}

/// The entries of all groupings.
pub fn groups(now: Option<GroupBy>) -> Vec<MenuEntry> {
    let all = [
        (None, "processes", "single processes"),
        (Some(GroupBy::Job), "job", "batch job, MPI namespace, pod, container, session or unit"),
        (Some(GroupBy::User), "user", "real user"),
        (Some(GroupBy::Comm), "command", "command name"),
        (Some(GroupBy::Cgroup), "cgroup", "path in the unified hierarchy"),
        (Some(GroupBy::Container), "container", "from the path of the cgroup"),
    ];
    let entry = |(by, label, note): (Option<GroupBy>, &str, &'static str)| MenuEntry {
        choice: MenuChoice::By(by),
        label: label.into(),
        note,
        is_on: by == now,
    };
    all.map(entry).into()
}

/// The entries of all rules.
pub fn rules(all: &[Rule]) -> Vec<MenuEntry> {
    let entry = |it: &Rule| MenuEntry {
        choice: MenuChoice::Rule(it.number),
        label: format!("{} in {} ({})", it.event, it.id.pid.0, it.name),
        note: "",
        is_on: false,
    };
    all.iter().map(entry).collect()
}

/// Common signals, which are listed first.
const COMMON: [u32; 9] = [15, 9, 2, 1, 19, 18, 3, 10, 12];

/// The entries of all signals.
pub fn signals() -> Vec<MenuEntry> {
    let rest = (1..=64).filter(|number| !COMMON.contains(number));
    let named = |number: u32| {
        let name = Signal { number, code: 0, thread: None }.name()?;
        let label = format!("{number:>2} {name}");
        Some(MenuEntry { choice: MenuChoice::Signal(number), label, note: "", is_on: false })
    };
    COMMON.into_iter().chain(rest).filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_text_filters_the_list() {
        let purpose = MenuPurpose::Signal(Identity::default(), String::new());
        let mut menu = Menu::new(purpose, signals());
        for letter in "usr2".chars() {
            let _ = menu.press(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE));
        }
        assert_eq!(menu.selected(), MenuResult::Choice(MenuChoice::Signal(12)));
    }

    #[test]
    fn the_current_value_is_selected_first() {
        let menu = Menu::new(MenuPurpose::Group, groups(Some(GroupBy::Comm)));
        assert_eq!(menu.selected(), MenuResult::Choice(MenuChoice::By(Some(GroupBy::Comm))));
    }
}
