//! Acts on the process under the bar: none is done without a question.

use super::prompt::{Prompt, Purpose};
use super::{Effect, Panel, State};
use crate::act::{Act, What};
use crate::key::Action;
use crossterm::event::{KeyCode, KeyEvent};
use monitor_format::human;
use monitor_model::field::ProcessField;
use monitor_model::id::Identity;

/// Numbers of signal(7), the same on every machine that this runs on.
const SIGCONT: u32 = 18;
const SIGSTOP: u32 = 19;

impl State {
    /// Who is under the bar; says why, if there is nobody to act on.
    pub(super) fn target(&mut self) -> Option<(Identity, String)> {
        let why = match self.chosen() {
            _ if self.news.place.is_some() => "this is a recording: there is nobody to act on",
            Some(it) if it.ended() => "this process has ended",
            Some(it) => {
                let mut name = String::new();
                human::escaped(&it.comm(), &mut name);
                return Some((it.id, name));
            }
            None if self.view.by.is_some() => "a group: open it with Enter, and choose a process",
            None => "there is no process to act on",
        };
        self.said = Some(why.into());
        None
    }

    /// Asks before an act.
    pub(super) fn ask(&mut self, action: Action) {
        let Some((id, name)) = self.target() else { return };
        let what = match action {
            Action::Stop => What::Signal(SIGSTOP),
            Action::Continue => What::Signal(SIGCONT),
            _ => {
                let nice = self.chosen().and_then(|it| it.row.get(ProcessField::Nice));
                let now = nice.map_or_else(String::new, |it| it.cast_signed().to_string());
                self.panel = Panel::Prompt(Prompt::new(Purpose::Nice(id, name), &now));
                return;
            }
        };
        self.panel = Panel::Ask(Act { id, name, what });
    }

    /// Only a clear yes is one.
    pub(super) fn answer(&mut self, act: Act, event: KeyEvent) -> Option<Effect> {
        match event.code {
            KeyCode::Char('y' | 'Y') => Some(Effect::Act(act)),
            _ => {
                self.said = Some("nothing was done".into());
                None
            }
        }
    }
}
