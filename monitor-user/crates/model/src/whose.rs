//! Of whom something is read: some processes, or those of a user.
//!
//! In: a process. Out: whether it is meant. What a user may see of others is decided elsewhere.

use super::field::ProcessField;
use super::id::Pid;
use super::sample::Process;

/// A user and the group that he acts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eyes {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Eyes {
    /// Whether the kernel lets these eyes look into it.
    pub fn own(self, process: &Process) -> bool {
        let is = |field, id| process.row.get(field) == Some(u64::from(id));
        process.unlent && is(ProcessField::Uid, self.uid) && is(ProcessField::Gid, self.gid)
    }
}

/// Processes that are meant: those that fit both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// By their numbers, which are in order; all, if absent.
    pub pids: Option<Vec<Pid>>,
    /// By whose they are; everybody's, if absent.
    pub eyes: Option<Eyes>,
}

impl Whose {
    /// Whether a process is meant.
    pub fn means(&self, process: &Process) -> bool {
        self.pids.as_ref().is_none_or(|pids| pids.binary_search(&process.id.pid).is_ok())
            && self.eyes.is_none_or(|eyes| eyes.own(process))
    }

    /// Those who are meant by either, and perhaps more.
    pub fn or(self, other: Self) -> Self {
        let both = self.pids.zip(other.pids);
        let pids = both.map(|(mine, his)| {
            let mut pids = [mine, his].concat();
            pids.sort_unstable();
            pids
        });
        Self { pids, eyes: self.eyes.filter(|_| self.eyes == other.eyes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Identity;

    fn process(pid: u32, uid: u64) -> Process {
        let mut it = Process { unlent: true, ..Process::default() };
        it.id = Identity { pid: Pid(pid), ..Identity::default() };
        it.row.set(ProcessField::Uid, uid);
        it.row.set(ProcessField::Gid, 70);
        it
    }

    const EYES: Eyes = Eyes { uid: 7, gid: 70 };

    #[test]
    fn who_is_meant_fits_number_and_user() {
        let whose = Whose { pids: Some(vec![Pid(1), Pid(2)]), eyes: Some(EYES) };
        let means = |pid, uid| whose.means(&process(pid, uid));
        assert_eq!([means(1, 7), means(2, 8), means(3, 7)], [true, false, false]);
        assert!(Whose::default().means(&process(3, 8)));
    }

    #[test]
    fn together_nobody_is_left_out_whom_one_of_them_means() {
        let of = |pids: Option<&[u32]>, eyes| {
            let pids = pids.map(|it| it.iter().copied().map(Pid).collect());
            Whose { pids, eyes }
        };
        let both = of(Some(&[1]), Some(EYES)).or(of(Some(&[2]), Some(EYES)));
        assert_eq!(both, of(Some(&[1, 2]), Some(EYES)));
        assert_eq!(of(Some(&[1]), None).or(of(None, Some(EYES))), Whose::default());
    }
}
