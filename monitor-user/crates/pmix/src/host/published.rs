//! Data that processes publish for others: names of `MPI_Publish_name`.
//!
//! In: keys with values, and which process publishes them. Out: the values. They live as long as
//! their process, unless they are to live as long as the job.

use crate::attribute::{Attribute, Datum, ProcName, find};
use crate::libpmix::Reply;
use crate::status;
use std::collections::BTreeMap;
use std::ffi::c_int;

/// `PMIX_PERSIST_PROC`: until the process ends.
const UNTIL_PROCESS_ENDS: u64 = 2;
/// Attributes that say how to publish, and are not published.
const DIRECTIVES: &str = "pmix.";
/// Most keys of one host: a client that publishes without end is refused.
const MOST: usize = 65_536;

/// A value, and whether it is removed with its process.
#[derive(Debug)]
struct PublishedValue {
    owner: ProcName,
    value: Datum,
    until_process_ends: bool,
}

/// All that is published, and the look-ups that wait for it.
#[derive(Default)]
pub struct Published {
    values: BTreeMap<String, PublishedValue>,
    waiting: Vec<(Vec<String>, Reply)>,
}

impl Published {
    /// Publishes attributes; the status.
    pub fn publish(&mut self, owner: &ProcName, attributes: Vec<Attribute>) -> c_int {
        let persistence = find(&attributes, "pmix.persist").and_then(Datum::number);
        let until_process_ends = persistence == Some(UNTIL_PROCESS_ENDS);
        let is_value = |it: &Attribute| !it.key.starts_with(DIRECTIVES);
        let values: Vec<_> = attributes.into_iter().filter(is_value).collect();
        if values.iter().any(|it| self.values.contains_key(&it.key)) {
            return status::DUPLICATE_KEY;
        }
        if self.values.len() + values.len() > MOST {
            return status::ERROR;
        }
        for Attribute { key, value } in values {
            let value = PublishedValue { owner: owner.clone(), value, until_process_ends };
            self.values.insert(key, value);
        }
        let waiting = std::mem::take(&mut self.waiting);
        for (keys, reply) in waiting {
            if keys.iter().all(|key| self.values.contains_key(key)) {
                self.reply(&keys, reply);
            } else {
                self.waiting.push((keys, reply));
            }
        }
        status::SUCCESS
    }

    /// Looks keys up; with `pmix.wait`, when all of them are published.
    pub fn look_up(&mut self, keys: Vec<String>, attributes: &[Attribute], reply: Reply) {
        let waits = find(attributes, "pmix.wait").is_some();
        if waits && !keys.iter().all(|key| self.values.contains_key(key)) {
            self.waiting.push((keys, reply));
        } else {
            self.reply(&keys, reply);
        }
    }

    fn reply(&self, keys: &[String], reply: Reply) {
        let value = |key: &String| {
            let found = self.values.get(key)?;
            Some((found.owner.clone(), key.clone(), found.value.clone()))
        };
        let found: Vec<_> = keys.iter().filter_map(value).collect();
        let status = match found.len() {
            0 => status::NOT_FOUND,
            n if n < keys.len() => status::PARTIAL_SUCCESS,
            _ => status::SUCCESS,
        };
        reply.found(status, &found);
    }

    /// Removes keys that the process has published, or all of them; the status.
    pub fn remove(&mut self, owner: &ProcName, keys: Option<&[String]>) -> c_int {
        let before = self.values.len();
        let is_meant = |key: &String| keys.is_none_or(|keys| keys.contains(key));
        self.values.retain(|key, it| it.owner != *owner || !is_meant(key));
        let removed = before - self.values.len();
        if removed == 0 && keys.is_some() { status::NOT_FOUND } else { status::SUCCESS }
    }

    /// Removes what a process published for its own time.
    pub fn process_ended(&mut self, owner: &ProcName) {
        self.values.retain(|_, it| !(it.until_process_ends && it.owner == *owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(rank: u32) -> ProcName {
        ProcName { nspace: "monitor-1".to_owned(), rank }
    }

    #[test]
    fn a_key_is_published_once_and_removed_by_its_process_alone() {
        let mut all = Published::default();
        let port = || vec![Attribute::new("ocean", Datum::text("port"))];
        assert_eq!(all.publish(&owner(0), port()), status::SUCCESS);
        assert_eq!(all.publish(&owner(1), port()), status::DUPLICATE_KEY);
        let keys = ["ocean".to_owned()];
        assert_eq!(all.remove(&owner(1), Some(&keys)), status::NOT_FOUND);
        assert_eq!(all.remove(&owner(0), Some(&keys)), status::SUCCESS);
        assert_eq!(all.publish(&owner(1), port()), status::SUCCESS);
    }

    #[test]
    fn what_is_published_for_the_time_of_a_process_ends_with_it() {
        let mut all = Published::default();
        let persist = Attribute::new("pmix.persist", Datum::Number(30, UNTIL_PROCESS_ENDS));
        let values = vec![Attribute::new("a", Datum::text("1")), persist];
        assert_eq!(all.publish(&owner(0), values), status::SUCCESS);
        assert_eq!(all.publish(&owner(0), vec![Attribute::new("b", Datum::Present)]), 0);
        all.process_ended(&owner(0));
        assert_eq!(all.values.keys().collect::<Vec<_>>(), ["b"]);
    }
}
