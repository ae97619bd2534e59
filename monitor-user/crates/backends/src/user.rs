//! Names of users, each looked up once.
//!
//! In: a number. Out: the name, or the number where the host knows none. A look-up may ask a
//! server over the network, so it is done only when names are asked for.

use monitor_sys::user;
use std::collections::HashMap;
use std::sync::Arc;

/// Most names remembered; beyond, all are forgotten and looked up again.
const MOST_USERS: usize = 65_536;

/// The names seen so far.
#[derive(Debug, Default)]
pub struct Users {
    names: HashMap<u32, Arc<str>>,
}

impl Users {
    /// The name of a user.
    pub fn name(&mut self, uid: u32) -> Arc<str> {
        if self.names.len() >= MOST_USERS {
            self.names.clear();
        }
        let look_up = || user::name(uid).unwrap_or_else(|| uid.to_string()).into();
        Arc::clone(self.names.entry(uid).or_insert_with(look_up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_or_else_the_number() {
        let mut users = Users::default();
        assert_eq!(&*users.name(0), "root");
        assert_eq!(&*users.name(4_294_967_290), "4294967290");
        assert_eq!(&*users.name(0), "root");
    }
}
