//! Who is held at events of programs: between the kernel, which stops, and the hands, which hold.

use super::Live;
use super::hands::hold::{Holding, Manner};
use crate::{Happening, Processes as _};
use monitor_event::right::Right;
use monitor_event::right::Tool;
use monitor_model::id::{Identity, Ns};
use std::collections::{BTreeMap, BTreeSet};

impl Live {
    /// Has the hands ready for what the programs that are there stop.
    pub(super) fn hold_for_programs(&mut self) {
        let Some(ruled) = &self.ruled else { return };
        let programs: Vec<_> = ruled.holding();
        let mut wanted = BTreeMap::new();
        for (serial, rule, tool, whom) in programs {
            let on = self.manners(&tool, &whom);
            let _none = wanted.insert(serial, Holding { rule, tool, on });
        }
        self.hands.hold(wanted);
        self.settle_holds();
    }

    /// Whom a tool may hold; it is not known yet whether his hand can trace them.
    fn manners(&mut self, tool: &Tool, whom: &BTreeSet<Identity>) -> BTreeMap<Identity, Manner> {
        let pids: Vec<_> = whom.iter().map(|id| id.pid).collect();
        let seen = self.look(&pids).unwrap_or_default();
        let may = |id: &Identity| {
            let it = seen.iter().find(|it| it.id.pid == id.pid);
            it.is_some_and(|it| tool.may(Right::Control, it).is_ok())
        };
        let manner = |id: &Identity| if may(id) { Manner::Signal } else { Manner::Denied };
        whom.iter().map(|id| (*id, manner(id))).collect()
    }

    /// Tells the programs how processes are held now.
    fn settle_holds(&mut self) {
        if let Some(ruled) = &mut self.ruled {
            ruled.hold(&self.hands.manners());
        }
    }

    /// The events of programs whose threads stand, once the kernel and the hands were heard.
    pub(super) fn held(&mut self, now: Ns) -> Vec<Happening> {
        if self.hands.take_change() {
            self.settle_holds();
        }
        let Some(ruled) = &mut self.ruled else { return Vec::new() };
        let (caught, strays) = ruled.take_caught();
        self.hands.catch(caught);
        strays.into_iter().for_each(|id| self.hands.let_run(id));
        self.hands.held(now)
    }
}
