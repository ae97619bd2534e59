//! The public job of a process: from its control groups only.
//!
//! In: the texts of a process. Out: the texts without what came from its environment, which proc(5)
//! shows only to the owner of the process. Does not check the owner.

use super::membership::Membership;
use monitor_model::{Environ, Origin, ProcessTexts};
use std::sync::Arc;

/// Removes what came from the environment; without an origin the whole job, as its source is
/// unknown.
pub fn forget_environ(text: &mut ProcessTexts) {
    text.rank = None;
    let Some(origin) = text.origin.take() else {
        text.job = None;
        return;
    };
    let public = Origin { cgroups: origin.cgroups.clone(), environ: Environ::default() };
    text.job = Membership::from_origin(&public).job();
    text.origin = Some(Arc::new(public));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cgroups: &str, environ: &[u8], want: Option<&str>) {
        let origin = Origin { cgroups: cgroups.into(), environ: Environ::parse(environ) };
        let job = Membership::from_origin(&origin).job();
        let mut text = ProcessTexts { job, origin: Some(origin.into()), ..ProcessTexts::default() };
        forget_environ(&mut text);
        assert_eq!(text.job.as_deref(), want);
    }

    #[test]
    fn the_job_from_the_cgroup_stays_and_the_one_from_the_environment_is_removed() {
        check("0::/\n", b"PMIX_NAMESPACE=secret\0PMIX_RANK=0\0", None);
        let unit = "0::/system.slice/ssh.service\n";
        check(unit, b"PMIX_NAMESPACE=secret\0PMIX_RANK=0\0", Some("unit:ssh.service"));
    }
}
