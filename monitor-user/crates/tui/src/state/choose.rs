//! What becomes of what was typed or chosen from a list.

use super::menu::{self, Choice, Entry, Menu, Picked, Purpose};
use super::prompt::{self, Prompt, Typed};
use super::row::Of;
use super::{Condition, Effect, Panel, State, Tab};
use crate::act::{Act, What};
use crate::column;
use crate::key::Action;
use crate::rule;
use crossterm::event::KeyEvent;
use monitor_model::field::{Category, ProcessField};
use monitor_model::group::{By, NONE};
use monitor_sampling::expression;
use monitor_sampling::order::Order;

impl State {
    /// The list that a key asks for; nothing, if there is nobody it could be for.
    pub(super) fn menu(&mut self, action: Action) -> Option<Menu> {
        let columns = self.columns();
        let (purpose, entries) = match action {
            Action::Sort => (Purpose::Sort, self.orders(&columns)),
            Action::Columns => {
                let entry = |field| menu::field(field, columns.contains(&field));
                (Purpose::Columns, column::all().map(entry).collect())
            }
            Action::Signal => {
                let (id, name) = self.target()?;
                (Purpose::Signal(id, name), menu::signals())
            }
            Action::Unwatch if self.rules.is_empty() => {
                self.said = Some("nothing is watched: w starts a rule".into());
                return None;
            }
            Action::Unwatch => (Purpose::Unwatch, menu::rules(&self.rules)),
            _ => (Purpose::Group, menu::groups(self.view.by)),
        };
        Some(Menu::new(purpose, entries))
    }

    /// Columns that are shown come first, then all others.
    fn orders(&self, columns: &[ProcessField]) -> Vec<Entry> {
        let shown = columns.iter().copied();
        let others = column::all().filter(|field| !columns.contains(field));
        let possible = shown.chain(others).filter(|field| Order::possible(*field));
        possible.map(|field| menu::field(field, field == self.view.order.field)).collect()
    }

    pub(super) fn choose(&mut self, mut menu: Menu, event: KeyEvent) -> Option<Effect> {
        match menu.press(event) {
            Picked::Closed => {}
            Picked::Moved => self.open(menu),
            Picked::Choice(choice) => return self.chose(menu, choice),
        }
        None
    }

    pub(super) fn chose(&mut self, mut menu: Menu, choice: Choice) -> Option<Effect> {
        match (choice, &menu.purpose) {
            (Choice::Field(field), Purpose::Columns) => {
                self.toggle(field);
                let on = self.columns().contains(&field);
                for entry in menu.entries.iter_mut().filter(|it| it.choice == choice) {
                    entry.on = on;
                }
                self.open(menu);
            }
            (Choice::Field(field), _) if field != self.view.order.field => self.sort_by(field),
            (Choice::By(by), _) => {
                self.view.by = by;
                self.leave_groups();
            }
            (Choice::Signal(number), Purpose::Signal(id, name)) => {
                let act = Act { id: *id, name: name.clone(), what: What::Signal(number) };
                self.panel = Panel::Ask(act);
            }
            (Choice::Rule(number), _) => return Some(Effect::Rule(rule::Order::Remove(number))),
            _ => {}
        }
        None
    }

    /// Shows or hides a column; a new one stands before the text that takes the rest of the line.
    fn toggle(&mut self, field: ProcessField) {
        let mut columns = self.columns();
        match columns.iter().position(|it| *it == field) {
            Some(at) if columns.len() > 1 => drop(columns.remove(at)),
            Some(_) => self.said = Some("the last column stays: a table has one at least".into()),
            None => {
                let is_text =
                    |it: &ProcessField| matches!(it, ProcessField::Comm | ProcessField::Cmdline);
                let end = columns.iter().position(is_text).unwrap_or(columns.len());
                columns.insert(if is_text(&field) { columns.len() } else { end }, field);
            }
        }
        self.view.columns = Some(columns);
    }

    /// Another kind of rows: the bar, the details and the tree are of the kind before.
    pub(super) fn leave_groups(&mut self) {
        self.tab = None;
        self.view.tree = false;
        self.cursor.release();
        self.arrange();
    }

    /// Shows the processes of the group under the bar.
    pub(super) fn enter_group(&mut self) {
        let (Some(by), Some(row)) = (self.view.by, self.rows.get(self.cursor.at)) else { return };
        let Of::Group(place) = row.of else { return };
        let groups = self.news.rates.groups.as_ref();
        let Some(group) = groups.and_then(|it| it.groups.get(place)) else { return };
        if &*group.name == NONE {
            self.said = Some("these have nothing in common that could be asked for".into());
            return;
        }
        let text = match by {
            // Its id is a part of the path.
            By::Container => {
                let id = group.name.rsplit(':').next().unwrap_or_default();
                format!("cgroup ~ {id}")
            }
            _ => format!("{} = {:?}", by.field().field().name, group.name),
        };
        if let Ok(expression) = expression::parse(&text) {
            self.view.condition = Some(Condition { text, expression });
            self.view.by = None;
            self.leave_groups();
        }
    }

    pub(super) fn type_in(&mut self, mut prompt: Prompt, event: KeyEvent) -> Option<Effect> {
        match prompt.press(event) {
            Typed::GivenUp => {
                if let prompt::Purpose::Filter(before) = prompt.purpose {
                    self.view.condition = before;
                    self.arrange();
                }
            }
            Typed::Done if prompt.fault().is_some() => self.panel = Panel::Prompt(prompt),
            Typed::Done => return self.typed(prompt),
            Typed::Edited => {
                self.preview(&prompt);
                self.panel = Panel::Prompt(prompt);
            }
        }
        None
    }

    /// Shows what fits while it is typed; a text that makes no sense yet changes nothing.
    fn preview(&mut self, prompt: &Prompt) {
        match (&prompt.purpose, prompt.condition()) {
            (prompt::Purpose::Filter(_), None) => self.view.condition = None,
            (_, Some(Ok(expression))) => {
                let text = prompt.text.clone();
                self.view.condition = Some(Condition { text, expression });
            }
            _ => return,
        }
        self.arrange();
    }

    fn typed(&mut self, prompt: Prompt) -> Option<Effect> {
        let nice = prompt.nice();
        match prompt.purpose {
            prompt::Purpose::Nice(id, name) => {
                let act = Act { id, name, what: What::Nice(nice.ok()?) };
                self.panel = Panel::Ask(act);
                None
            }
            prompt::Purpose::Watch(id, name) => {
                // What becomes of it is seen there.
                self.tab = Some(Tab::Rules);
                self.go(self.cursor.at);
                let event = prompt.text.trim().to_owned();
                Some(Effect::Rule(rule::Order::Start { id, name, event }))
            }
            prompt::Purpose::Filter(_) => None,
        }
    }
}
