//! The results of prompts and lists, and the actions on the selected process, each of which needs a
//! confirmation.

use super::menu::{self, Menu, MenuChoice, MenuEntry, MenuPurpose, MenuResult};
use super::prompt::{self, Prompt, PromptPurpose, PromptResult};
use super::{Condition, Effect, Panel, ScreenState, Tab, row::RowSource};
use crate::process_action::{ActionKind, ProcessAction};
use crate::{column, key::Action, rule};
use crossterm::event::{KeyCode, KeyEvent};
use monitor_format::human;
use monitor_model::{Category, GroupBy, Identity, ProcessField, group::NONE};
use monitor_sampling::{expression, order::Order};

impl ScreenState {
    /// The list that a key opens; `None` if it does not apply.
    pub(super) fn menu(&mut self, action: Action) -> Option<Menu> {
        let columns = self.columns();
        let (purpose, entries) = match action {
            Action::Sort => (MenuPurpose::Sort, self.orders(&columns)),
            Action::Columns => {
                let entry = |field| menu::field(field, columns.contains(&field));
                (MenuPurpose::Columns, column::all().map(entry).collect())
            }
            Action::Signal => {
                let (id, name) = self.target()?;
                (MenuPurpose::Signal(id, name), menu::signals())
            }
            Action::Unwatch if self.rules.is_empty() => {
                self.message = Some("nothing is watched: w starts a rule".into());
                return None;
            }
            Action::Unwatch => (MenuPurpose::Unwatch, menu::rules(&self.rules)),
            _ => (MenuPurpose::Group, menu::groups(self.view.group_by)),
        };
        Some(Menu::new(purpose, entries))
    }

    /// The columns to sort by: the visible ones first.
    fn orders(&self, columns: &[ProcessField]) -> Vec<MenuEntry> {
        let shown = columns.iter().copied();
        let others = column::all().filter(|field| !columns.contains(field));
        let possible = shown.chain(others).filter(|field| Order::is_sortable(*field));
        possible.map(|field| menu::field(field, field == self.view.order.field)).collect()
    }

    pub(super) fn menu_key(&mut self, mut menu: Menu, event: KeyEvent) -> Option<Effect> {
        match menu.press(event) {
            MenuResult::Closed => {}
            MenuResult::Moved => self.panel = Panel::Menu(menu),
            MenuResult::Choice(choice) => return self.apply_choice(menu, choice),
        }
        None
    }

    pub(super) fn apply_choice(&mut self, mut menu: Menu, choice: MenuChoice) -> Option<Effect> {
        match (choice, &menu.purpose) {
            (MenuChoice::Field(field), MenuPurpose::Columns) => {
                self.toggle(field);
                let on = self.columns().contains(&field);
                for entry in menu.entries.iter_mut().filter(|it| it.choice == choice) {
                    entry.is_on = on;
                }
                self.panel = Panel::Menu(menu);
            }
            (MenuChoice::Field(field), _) if field != self.view.order.field => self.sort_by(field),
            (MenuChoice::By(by), _) => {
                self.view.group_by = by;
                self.leave_groups();
            }
            (MenuChoice::Signal(number), MenuPurpose::Signal(id, name)) => {
                let act =
                    ProcessAction { id: *id, name: name.clone(), kind: ActionKind::Signal(number) };
                self.panel = Panel::Confirm(act);
            }
            (MenuChoice::Rule(number), _) => {
                return Some(Effect::Rule(rule::RuleRequest::Remove(number)));
            }
            _ => {}
        }
        None
    }

    /// Shows or hides a column. A new one is inserted before the text that takes the rest of the
    /// line.
    fn toggle(&mut self, field: ProcessField) {
        let mut columns = self.columns();
        match columns.iter().position(|it| *it == field) {
            Some(at) if columns.len() > 1 => drop(columns.remove(at)),
            Some(_) => self.message = Some("the table needs at least one column".into()),
            None => {
                let is_text =
                    |it: &ProcessField| matches!(it, ProcessField::Comm | ProcessField::Cmdline);
                let end = columns.iter().position(is_text).unwrap_or(columns.len());
                columns.insert(if is_text(&field) { columns.len() } else { end }, field);
            }
        }
        self.view.columns = Some(columns);
    }

    /// Resets selection, details and tree, because the kind of rows changes.
    pub(super) fn leave_groups(&mut self) {
        self.tab = None;
        self.view.tree = false;
        self.cursor.reset();
        self.rebuild_rows();
    }

    /// Shows the processes of the selected group.
    pub(super) fn enter_group(&mut self) {
        let (Some(by), Some(row)) = (self.view.group_by, self.rows.get(self.cursor.index)) else {
            return;
        };
        let RowSource::Group(index) = row.source else { return };
        let groups = self.update.rates.groups.as_ref();
        let Some(group) = groups.and_then(|it| it.groups.get(index)) else { return };
        if &*group.name == NONE {
            self.message = Some("these processes have no common value to filter by".into());
            return;
        }
        let text = match by {
            // The container id is a part of the cgroup path.
            GroupBy::Container => {
                let id = group.name.rsplit(':').next().unwrap_or_default();
                format!("cgroup ~ {id}")
            }
            _ => format!("{} = {:?}", by.field().field().name, group.name),
        };
        if let Ok(expression) = expression::parse(&text) {
            self.view.condition = Some(Condition { text, expression });
            self.view.group_by = None;
            self.leave_groups();
        }
    }

    pub(super) fn prompt_key(&mut self, mut prompt: Prompt, event: KeyEvent) -> Option<Effect> {
        match prompt.press(event) {
            PromptResult::Cancelled => {
                if let prompt::PromptPurpose::Filter(before) = prompt.purpose {
                    self.view.condition = before;
                    self.return_to_place();
                    self.rebuild_rows();
                }
            }
            PromptResult::Done if prompt.fault().is_some() => self.panel = Panel::Prompt(prompt),
            PromptResult::Done => return self.submit_prompt(prompt),
            PromptResult::Edited => {
                self.preview(&prompt);
                self.panel = Panel::Prompt(prompt);
            }
        }
        None
    }

    /// Applies a condition while it is typed; an invalid text changes nothing.
    fn preview(&mut self, prompt: &Prompt) {
        match (&prompt.purpose, prompt.condition()) {
            (prompt::PromptPurpose::Filter(_), None) => self.view.condition = None,
            (_, Some(Ok(expression))) => {
                let text = prompt.text.clone();
                self.view.condition = Some(Condition { text, expression });
            }
            _ => return,
        }
        self.rebuild_rows();
    }

    fn submit_prompt(&mut self, prompt: Prompt) -> Option<Effect> {
        let nice = prompt.nice();
        let event = prompt.event();
        match prompt.purpose {
            prompt::PromptPurpose::Nice(id, name) => {
                let act = ProcessAction { id, name, kind: ActionKind::Nice(nice.ok()?) };
                self.panel = Panel::Confirm(act);
                None
            }
            prompt::PromptPurpose::Watch(id, name) => {
                let event = event?;
                // The page of rules shows its state.
                self.tab = Some(Tab::Rules);
                self.select(self.cursor.index);
                Some(Effect::Rule(rule::RuleRequest::Start { id, name, event }))
            }
            prompt::PromptPurpose::Filter(_) => {
                self.return_to_place();
                self.rebuild_rows();
                None
            }
        }
    }
}

/// Signal numbers of signal(7), the same on all supported architectures.
const SIGCONT: u32 = 18;
const SIGSTOP: u32 = 19;

impl ScreenState {
    /// The selected process; if there is none to act on, a message says why.
    pub(super) fn target(&mut self) -> Option<(Identity, String)> {
        let why = match self.selected() {
            _ if self.update.playback.is_some() => {
                "this is a recording: actions need live processes"
            }
            _ if self.update.is_elsewhere => {
                "this process is on another node: actions need a process of this one"
            }
            Some(it) if it.ended() => "this process has ended",
            Some(it) => return Some((it.id, human::escaped_text(&it.comm()))),
            None if self.view.group_by.is_some() => {
                "a group: open it with Enter, then select a process"
            }
            None => "no process is selected",
        };
        self.message = Some(why.into());
        None
    }

    /// Asks for the confirmation of an action.
    pub(super) fn confirm(&mut self, action: Action) {
        let Some((id, name)) = self.target() else { return };
        let what = match action {
            Action::Stop => ActionKind::Signal(SIGSTOP),
            Action::Continue => ActionKind::Signal(SIGCONT),
            _ => {
                let nice = self.selected().and_then(|it| it.row.get(ProcessField::Nice));
                let now = nice.map_or_else(String::new, |it| it.cast_signed().to_string());
                self.panel = Panel::Prompt(Prompt::new(PromptPurpose::Nice(id, name), &now));
                return;
            }
        };
        self.panel = Panel::Confirm(ProcessAction { id, name, kind: what });
    }

    /// Handles the answer: only `y` confirms.
    pub(super) fn answer_confirm(
        &mut self,
        action: ProcessAction,
        event: KeyEvent,
    ) -> Option<Effect> {
        match event.code {
            KeyCode::Char('y' | 'Y') => Some(Effect::Act(action)),
            _ => {
                self.message = Some("nothing was done".into());
                None
            }
        }
    }
}
