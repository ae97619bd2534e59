//! Names of users, each looked up once.
//!
//! In: a uid. Out: the name, or the uid if the host has none. A look-up may query a server over the
//! network, so it is done only when names are requested.

use monitor_sys::users;
use std::{collections::HashMap, sync::Arc};

/// Maximum number of cached names; beyond, the cache is cleared.
const MAX_USERS: usize = 65_536;

/// Cache of user names.
#[derive(Debug, Default)]
pub struct Users {
    names: HashMap<u32, Arc<str>>,
}

impl Users {
    /// The name of a user.
    pub fn name(&mut self, uid: u32) -> Arc<str> {
        if self.names.len() >= MAX_USERS {
            self.names.clear();
        }
        let look_up = || users::name(uid).unwrap_or_else(|| uid.to_string()).into();
        Arc::clone(self.names.entry(uid).or_insert_with(look_up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_is_printed_as_uid() {
        let mut users = Users::default();
        assert_eq!(&*users.name(0), "root");
        assert_eq!(&*users.name(4_294_967_290), "4294967290");
        assert_eq!(&*users.name(0), "root");
    }
}
