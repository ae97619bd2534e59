//! Actions on the selected process. Each needs a confirmation.

use super::prompt::{Prompt, PromptPurpose};
use super::{Effect, Panel, ScreenState};
use crate::key::Action;
use crate::process_action::{ActionKind, ProcessAction};
use crossterm::event::{KeyCode, KeyEvent};
use monitor_format::human;
use monitor_model::field::ProcessField;
use monitor_model::id::Identity;

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
            Some(it) if it.ended() => "this process has ended",
            Some(it) => {
                let mut name = String::new();
                human::escaped(&it.comm(), &mut name);
                return Some((it.id, name));
            }
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
