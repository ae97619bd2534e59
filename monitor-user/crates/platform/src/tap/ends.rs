//! Where the end of a call is seen: at the function's return instructions, and at its jumps to
//! other functions.
//!
//! In: a tap and a site of its function. Out: hook points. A replaced return address would see
//! every end at one place and cost less, but ends a program that unwinds through the function: it
//! is used only where the owner of the process asked for it.

use monitor_backend::rule::{self, HookPoint};
use monitor_event::tap::{Edge, Tap};
use monitor_model::Pid;
use monitor_symbols::{calls::CallSite, ends::FunctionEnds, error::SymbolError};
use std::path::Path;

/// The hook points of a function's ends.
pub(super) enum EndSites {
    /// Ends are not watched.
    None,
    /// Instructions.
    Instructions(FunctionEnds),
    /// The return address of a call, replaced at this offset.
    Trampoline(u64),
}

impl EndSites {
    /// Those that a tap watches.
    pub(super) fn from_tap(tap: &Tap, site: &CallSite) -> Self {
        match (tap.edge, tap.by_trampoline) {
            (Edge::Start, _) => Self::None,
            (Edge::End, true) => Self::Trampoline(site.offset),
            (Edge::End, false) => Self::Instructions(site.ends.clone()),
        }
    }

    /// Where the result is known.
    pub(super) fn returns(&self, at: impl Fn(u64) -> rule::Site) -> Option<HookPoint> {
        match self {
            Self::None => None,
            Self::Instructions(ends) => hook_point(&ends.returns, at),
            Self::Trampoline(offset) => Some(HookPoint::Trampoline(at(*offset))),
        }
    }

    /// Whether another function may give the result.
    pub(super) fn has_tail_jumps(&self) -> bool {
        matches!(self, Self::Instructions(ends) if !ends.tail_jumps.is_empty())
    }

    /// Where another function goes on.
    pub(super) fn tail_jumps(&self, at: impl Fn(u64) -> rule::Site) -> Option<HookPoint> {
        match self {
            Self::Instructions(ends) => hook_point(&ends.tail_jumps, at),
            Self::None | Self::Trampoline(_) => None,
        }
    }
}

fn hook_point(offsets: &[u64], at: impl Fn(u64) -> rule::Site) -> Option<HookPoint> {
    let sites: Vec<rule::Site> = offsets.iter().copied().map(at).collect();
    (!sites.is_empty()).then_some(HookPoint::Ends(sites))
}

/// Refuses a process with a shadow stack: its processor checks that each return address is the one
/// that the call stored, and a kernel that steps or emulates calls may store another.
pub fn refuse_shadow_stack(proc: &Path, pid: Pid) -> Result<(), SymbolError> {
    let status = std::fs::read_to_string(proc.join(format!("{}/status", pid.0)));
    let status = status.unwrap_or_default();
    let features = status.lines().find_map(|line| line.strip_prefix("x86_Thread_features:"));
    if features.is_some_and(|features| features.split_whitespace().any(|it| it == "shstk")) {
        let why = "it has a shadow stack; watch its calls alone".to_owned();
        return Err(SymbolError::Unsafe { place: format!("process {}", pid.0), why });
    }
    Ok(())
}
