//! Who may see what: from the user at the other end to what is kept from him.

use crate::meter::veil::Veil;

/// What `/proc` keeps from users here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hidden {
    /// Nothing but what is another's.
    #[default]
    Nothing,
    /// That others' processes are there (`hidepid`).
    Others,
}

/// What this user sees.
pub const fn veil(uid: u32, hidden: Hidden) -> Veil {
    match (uid, hidden) {
        (0, _) => Veil::None,
        (uid, Hidden::Nothing) => Veil::Own(uid),
        (uid, Hidden::Others) => Veil::Only(uid),
    }
}
