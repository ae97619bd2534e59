//! Programs that a process begins, and libraries that it loads later: it is looked at again.
//!
//! In: what the kernel tells of an exec, and of the function that dynamic linkers call for
//! debuggers before and after they load something (`r_brk` of `struct r_debug`, link.h). Out: the
//! taps are set in what is new. Nobody is held for it: calls until then are not seen. See
//! `newcomer` for that.

use super::{Edge, Taps};
use monitor_backend::rule::HookPoint;
use monitor_backend::rule::insn::{Insn, RecordOptions};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_event::tap::Tap;
use std::sync::Arc;

/// What it is called in the linkers of glibc and musl, and of Android. Written in a way that
/// nobody asks for, so that it is never somebody's own tap.
const LINKER_HOOK: &str = "_dl_debug_state|rtld_db_dlactivity";

impl Taps {
    /// While there are taps, loads are looked out for.
    pub(super) fn watch_images(&mut self) {
        let own = Arc::new(Tap { name: LINKER_HOOK.to_owned(), edge: Edge::Start });
        if self.taps.keys().all(|tap| *tap == own) {
            self.remove(&own);
            if let Some(list) = self.exec_watch.take() {
                self.rules.remove(list);
            }
            return;
        }
        _ = self.taps.entry(own).or_default();
        if self.exec_watch.is_none() {
            let urgent = RecordOptions { urgent: true, ..RecordOptions::default() };
            match self.add_program(HookPoint::Exec, vec![Insn::Record(urgent)]) {
                Ok(list) => self.exec_watch = Some(list),
                Err(error) => tracing::warn!(%error, "programs that are begun are not looked at"),
            }
        }
    }

    /// Whether a record tells that something new is in a process.
    pub(super) fn is_load(&self, record: &Record) -> bool {
        let of_linker = self.meanings.get(&record.program).is_some_and(|(tap, ..)| tap.name == LINKER_HOOK);
        of_linker || self.exec_watch == Some(record.program)
    }
}
