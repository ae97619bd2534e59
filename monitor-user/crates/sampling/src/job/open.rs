//! The job of a process as everybody may know it: by its control groups alone.
//!
//! In: the texts of a process. Out: the same without what its environment told, which proc(5)
//! shows to who owns the process. Who owns it is not known here.

use super::Membership;
use monitor_model::job::{Environ, Origin};
use monitor_model::sample::Text;
use std::sync::Arc;

/// Takes away what was told by the environment. Of one whose origin was not read nothing is left:
/// where it got its job from is not known.
pub fn forget_environ(text: &mut Text) {
    text.rank = None;
    let Some(origin) = text.origin.take() else {
        text.job = None;
        return;
    };
    let open = Origin { cgroups: origin.cgroups.clone(), environ: Environ::default() };
    text.job = Membership::of(&open).job();
    text.origin = Some(Arc::new(open));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cgroups: &str, environ: &[u8], want: Option<&str>) {
        let origin = Origin { cgroups: cgroups.into(), environ: Environ::parse(environ) };
        let job = Membership::of(&origin).job();
        let mut text = Text { job, origin: Some(origin.into()), ..Text::default() };
        forget_environ(&mut text);
        assert_eq!(text.job.as_deref(), want);
    }

    #[test]
    fn what_the_cgroup_tells_stays_and_what_the_environment_tells_goes() {
        check("0::/\n", b"PMIX_NAMESPACE=secret\0PMIX_RANK=0\0", None);
        let unit = "0::/system.slice/ssh.service\n";
        check(unit, b"PMIX_NAMESPACE=secret\0PMIX_RANK=0\0", Some("unit:ssh.service"));
    }
}
