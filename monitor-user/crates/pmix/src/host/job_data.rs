//! What clients get to know about their job (PMIx standard, "Job-level information").

use super::spawn_request::{STOP_IN_APP, STOP_IN_INIT, Stops, TARGET};
use crate::attribute::{Attribute, Datum, ProcName, WILDCARD};
use crate::kind;
use crate::libpmix::{PmixError, Server};
use std::path::{Path, PathBuf};

/// Of what a job consists.
#[derive(Debug)]
pub struct JobShape<'j> {
    /// Its namespace.
    pub nspace: &'j str,
    /// Ranks of each application, in order.
    pub applications: &'j [u32],
    /// The process that started it, if it is not the first job.
    pub parent: Option<&'j ProcName>,
    /// Where its ranks are to wait for a debugger.
    pub stops: Stops,
    /// The namespace that it runs beside, if it is daemons of a debugger.
    pub target: Option<&'j str>,
}

/// What the library needs to know as a server: where its files are, and that tools of this node may
/// connect.
pub fn server(folder: &Path) -> Vec<Attribute> {
    let folder = Datum::text(&folder.to_string_lossy());
    vec![
        Attribute::new("pmix.srvr.tmpdir", folder.clone()),
        Attribute::new("pmix.sys.tmpdir", folder),
        Attribute::new("pmix.srvr.tool", Datum::flag(true)),
        Attribute::new("pmix.srvr.remote", Datum::flag(false)),
        // Without it, 4.2.2 would write the output for tools itself, to a stream that it has not
        // opened (`pmix_iof_write_output`), and end by a signal.
        Attribute::new("pmix.iof.local", Datum::flag(false)),
        Attribute::new("pmix.srv.nspace", Datum::text(SERVER)),
        Attribute::new("pmix.srv.rank", Datum::Number(kind::RANK, 0)),
    ]
}

/// The namespace of the host itself.
pub const SERVER: &str = "monitor-pmix";

/// The folders for files of ranks, in the folder of the host: that of all jobs, and that of one.
/// Libraries remove what they find there.
pub fn folders(folder: &Path, nspace: &str) -> (PathBuf, PathBuf) {
    let session = folder.join("ranks");
    let own = session.join(nspace);
    (session, own)
}

/// The name of the host itself.
pub fn server_name() -> ProcName {
    ProcName { nspace: SERVER.to_owned(), rank: 0 }
}

/// The attributes of a job of this node.
///
/// # Errors
/// If the library cannot pack the name of the node.
pub fn job(
    server: &Server,
    host: &str,
    folder: &Path,
    shape: &JobShape<'_>,
) -> Result<Vec<Attribute>, PmixError> {
    let size: u32 = shape.applications.iter().sum();
    let number = |number: u32| Datum::Number(kind::UINT32, number.into());
    let ranks = (0..size).map(|it| it.to_string()).collect::<Vec<_>>().join(",");
    let path = |path: &Path| Datum::text(&path.to_string_lossy());
    let (session, own) = folders(folder, shape.nspace);
    let applications = u32::try_from(shape.applications.len()).unwrap_or(u32::MAX);
    let mut all = vec![
        Attribute::new("pmix.univ.size", number(size)),
        Attribute::new("pmix.job.size", number(size)),
        Attribute::new("pmix.local.size", number(size)),
        Attribute::new("pmix.node.size", number(size)),
        Attribute::new("pmix.max.size", number(size)),
        Attribute::new("pmix.job.napps", number(applications)),
        Attribute::new("pmix.num.nodes", number(1)),
        Attribute::new("pmix.nmap", Datum::Text(server.packed_nodes(host)?)),
        Attribute::new("pmix.pmap", Datum::Text(server.packed_ranks(&ranks)?)),
        Attribute::new("pmix.lpeers", Datum::text(&ranks)),
        Attribute::new("pmix.jobid", Datum::text(shape.nspace)),
        Attribute::new("pmix.tmpdir", path(&session)),
        Attribute::new("pmix.nsdir", path(&own)),
        // Open MPI would remove both when a rank ends, with what others have there.
        Attribute::new("pmix.tdir.rmclean", Datum::flag(true)),
    ];
    if let Some(parent) = shape.parent {
        all.push(Attribute::new("pmix.spawned", Datum::flag(true)));
        all.push(Attribute::new("pmix.parent", Datum::Proc(parent.clone())));
    }
    for (key, is_set) in [(STOP_IN_INIT, shape.stops.in_init), (STOP_IN_APP, shape.stops.in_app)] {
        all.extend(is_set.then(|| Attribute::new(key, Datum::flag(true))));
    }
    if let Some(nspace) = shape.target {
        let ranks = ProcName { nspace: nspace.to_owned(), rank: WILDCARD };
        all.push(Attribute::new(TARGET, Datum::Proc(ranks)));
    }
    let mut next = 0;
    for (application, &count) in (0..).zip(shape.applications) {
        let first = next;
        all.push(Attribute::new(
            "pmix.app.arr",
            Datum::Attributes(vec![
                Attribute::new("pmix.appnum", number(application)),
                Attribute::new("pmix.app.size", number(count)),
                Attribute::new("pmix.aldr", Datum::Number(kind::RANK, first.into())),
            ]),
        ));
        for rank in first..first + count {
            all.push(rank_data(host, rank, (application, rank - first)));
        }
        next += count;
    }
    Ok(all)
}

/// The attributes of one rank.
fn rank_data(host: &str, rank: u32, (application, in_application): (u32, u32)) -> Attribute {
    let small = |number: u32| Datum::Number(kind::UINT16, u64::from(number) & 0xffff);
    let ranked = |number: u32| Datum::Number(kind::RANK, number.into());
    Attribute::new(
        "pmix.pdata",
        Datum::Attributes(vec![
            Attribute::new("pmix.rank", ranked(rank)),
            Attribute::new("pmix.lrank", small(rank)),
            Attribute::new("pmix.nrank", small(rank)),
            Attribute::new("pmix.grank", ranked(rank)),
            Attribute::new("pmix.apprank", ranked(in_application)),
            Attribute::new("pmix.appnum", Datum::Number(kind::UINT32, application.into())),
            Attribute::new("pmix.hname", Datum::text(host)),
            Attribute::new("pmix.nodeid", Datum::Number(kind::UINT32, 0)),
        ]),
    )
}
