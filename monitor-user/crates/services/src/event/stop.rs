//! `process_stopped` and `process_continued`: stops by services.

use super::process_filter;
use crate::{Handler, ResultSpec, ServiceSpec, spec::param};
use monitor_event::{EventKind, Right};
use monitor_omis::param_type::{Param, ParamType};

const LIST: Param = param("tid_list", ParamType::Many(&ParamType::Process));
const TID: ResultSpec = ResultSpec::new("tid", "integer");

/// The services.
pub const SERVICES: &[ServiceSpec] = &[
    ServiceSpec {
        name: "process_stopped",
        params: &[LIST],
        results: &[TID],
        right: Right::ObserveInFull,
        help: "Occurs when one of the processes has been stopped by `stop`, of any tool. A \
               process that is stopped already is not stopped again.",
        examples: &["process 7\nattach 7\n> 10 [0] process_stopped([7]): 11 [0] print([$1])\n\
                     < 10 [0] process_stopped(0)\n> 12 [0] enable(10); 13 [0] stop([7])\n\
                     < 12 [0] enable(0); 13 [0] stop(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7])"],
        handler: Handler::Event(|ctx, args| {
            process_filter(ctx, &args[0], EventKind::Stopped, None)
        }),
        ..ServiceSpec::BASE
    },
    ServiceSpec {
        name: "process_continued",
        params: &[LIST],
        results: &[TID],
        right: Right::ObserveInFull,
        help: "Occurs when the last tool that had stopped one of the processes continues it.",
        examples: &["process 7\nattach 7\n> 10 [0] process_continued([7]): 11 [0] print([$1])\n\
                     < 10 [0] process_continued(0)\n\
                     > 12 [0] enable(10); 13 [0] stop([7]); 14 [0] continue([7])\n\
                     < 12 [0] enable(0); 13 [0] stop(0); 14 [0] continue(0)\n\
                     at 1ms process 7 nice=1\n< 11 [0] print(0,[7])"],
        handler: Handler::Event(|ctx, args| {
            process_filter(ctx, &args[0], EventKind::Continued, None)
        }),
        ..ServiceSpec::BASE
    },
];
