//! Messages of a user worker, whose user may have taken it over, and those that it receives.

use super::input::input;
use super::trial::{Border, MAX_MEMORY, run};
use monitor_control::messages::{
    BreakpointMeans, FileQuery, FoundInFiles, LaunchSpec, LoadedImage, Patch, RequestTag,
    StackFrame, StopMethod, WorkerEvent, WorkerEventKind, WorkerMessage,
};
use monitor_control::user_worker::WorkerRole;
use monitor_control::user_worker::frame::frame;
use monitor_control::{ControlError, NumberedRequest, Target, ToolId, WorkerReply, WorkerRequest};
use monitor_model::{ErrnoPlace, Identity, Ns, Pid};
use monitor_symbols::calls::{CallQuery, CallSite, FoundCalls};
use monitor_symbols::held_file::FileRef;
use monitor_symbols::{FunctionEnds, site::ProbeCost};

fn identity() -> Identity {
    Identity { pid: Pid(7), start: Ns(70_000_000) }
}

fn replies() -> Vec<WorkerMessage> {
    let file = FileRef { path: "/usr/lib/libc.so.6".into(), range: (4096, 8192), identity: (1, 2) };
    let ends = FunctionEnds { returns: vec![3, 4], tail_jumps: vec![5] };
    let site = CallSite {
        file,
        offset: 2,
        function: "f".into(),
        cost: ProbeCost::Stepped("ret".into()),
        ends,
        marks: vec!["m".into()],
    };
    let calls = FoundCalls { sites: vec![site], errno: Some(ErrnoPlace::Offset(-8)) };
    let frames = vec![StackFrame { pc: 1, cfa: 2, name: Some("main".into()) }; 3];
    let (path, parts) = (b"/bin/a".to_vec(), (1, 2));
    let image =
        LoadedImage { path, code: parts, data: parts, bss: parts, build_id: vec![1, 2, 3, 4] };
    let good = [
        WorkerReply::Done,
        WorkerReply::Stopped(StopMethod::Freezer("/sys/fs/cgroup/a".into())),
        WorkerReply::Bytes(vec![1, 2, 3]),
        WorkerReply::Integers(vec![u64::MAX, 0]),
        WorkerReply::Floats(vec![0.5]),
        WorkerReply::Frames(frames),
        WorkerReply::Images(vec![image]),
        WorkerReply::Started(identity()),
        WorkerReply::BreakpointSet(BreakpointMeans::Byte(Patch { address: 4096, original: 0x55 })),
        WorkerReply::CriuVersion("4.1".into()),
        WorkerReply::Files(Ok(FoundInFiles::Calls(calls))),
    ];
    let failed = Err(ControlError::Denied { what: "stop".into(), need: "CAP_KILL".into() });
    let event = WorkerEvent {
        target: Target::from(identity()),
        requester: Some((ToolId(1), RequestTag(2))),
        kind: WorkerEventKind::Called(1, 0.5),
    };
    let replies = good.into_iter().map(Ok).chain([failed]);
    let replies = replies.map(|reply| WorkerMessage::Reply(300, reply));
    replies.chain([WorkerMessage::Event(event)]).collect()
}

fn requests() -> Vec<NumberedRequest> {
    let target = || Target::from(identity());
    let start = LaunchSpec {
        path: "/bin/true".into(),
        arguments: vec![b"a".to_vec()],
        environment: Some(vec![(b"A".to_vec(), b"1".to_vec())]),
        folder: None,
        streams: [None, Some("/dev/null".into()), None],
        stopped: true,
    };
    let query = CallQuery { name: "f".into(), returns: true, ends: true, marks: vec!["m".into()] };
    let all = [
        WorkerRequest::Stop(target()),
        WorkerRequest::Signal(target(), -1),
        WorkerRequest::ReadMemory(target(), 4096, 64),
        WorkerRequest::WriteFloats(target(), 1, vec![0.5]),
        WorkerRequest::Start(start),
        WorkerRequest::ReadFiles(Pid(7), FileQuery::Calls(query)),
    ];
    let numbered = |request| NumberedRequest { number: 300, tool: ToolId(1), request };
    all.into_iter().map(numbered).collect()
}

#[test]
fn any_bytes_of_a_worker_are_messages_or_an_error() {
    let replies = replies().into_iter().map(|it| frame(&it).unwrap());
    let samples: Vec<Vec<u8>> =
        replies.chain(requests().into_iter().map(|it| frame(&it).unwrap())).collect();
    let border = Border { name: "messages of a worker", max_memory: MAX_MEMORY };
    run(
        border,
        |random| input(random, &samples, &[]),
        |bytes| {
            // The length is wrong after most changes: half of the inputs have the right one.
            let mut bytes = bytes.to_vec();
            if bytes.last().is_some_and(|it| it % 2 == 0) && bytes.len() > 4 {
                let length = u32::try_from(bytes.len() - 4).unwrap();
                bytes[..4].copy_from_slice(&length.to_le_bytes());
            }
            let mut inbox = WorkerRole::Reader.inbox();
            let (first, rest) = bytes.split_at(bytes.len() / 2);
            for part in [first, rest] {
                inbox.add(part);
                while let Ok(Some(message)) = inbox.next_message::<WorkerMessage>() {
                    if let WorkerMessage::Reply(_, Ok(WorkerReply::Files(Ok(found)))) = message
                        && let FoundInFiles::Calls(calls) = found
                    {
                        let _either = calls.checked();
                    }
                }
            }
            let mut inbox = WorkerRole::Actor.inbox();
            inbox.add(&bytes);
            while let Ok(Some(_)) = inbox.next_message::<NumberedRequest>() {}
        },
    );
}
