//! A client that is stopped while a hundred events a second are sent to it.

use crate::root::workload::Guarded;
use crate::served::Served;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

/// Events that the other client reads meanwhile, of one series at 100 Hz: some seconds.
const MEANWHILE: usize = 300;
/// What a stopped client may cost: its queue, and what the allocator makes of it.
const BOUND: u64 = 16 << 20;

/// Subscribes four times at 100 Hz; when it is continued after a stop, checks of each series that
/// the received and the dropped events add up to all events.
fn subscriber(socket: &Path) -> Guarded {
    let program = format!(
        "import socket,json,sys\n\
         s=socket.socket(socket.AF_UNIX); s.connect({socket:?})\n\
         for n in range(4):\n  \
           p=dict(id='m%d'%n,part='all',every_ns=10000000)\n  \
           s.sendall((json.dumps(dict(id=n,method='monitor',params=p))+'\\n').encode())\n\
         f=s.makefile('r'); last={{}}; lost=0; after=0; said=False\n\
         for line in f:\n  \
           it=json.loads(line)\n  \
           e=it.get('params') or it['result']\n  \
           if e['id'] in last and e['seq']!=last[e['id']]+1+e['dropped']:\n    \
             print('wrong',e['id'],last[e['id']],e['seq'],e['dropped'],flush=True); break\n  \
           last[e['id']]=e['seq']; lost+=e['dropped']; after+=1 if lost else 0\n  \
           if len(last)==4 and not said: print('ready',flush=True); said=True\n  \
           if after>400: print('lost',lost,flush=True); break\n",
        socket = socket.display().to_string(),
    );
    let mut it = Guarded::python(&program);
    assert_eq!(it.line(), "ready");
    it
}

#[test]
fn a_stopped_client_costs_a_bounded_queue_and_learns_exactly_what_it_lost() {
    let service = Served::start("test");
    let mut other = service.connect();
    let _first = other.call("monitor", r#"{"id":"o","every_ns":10000000,"fields":["cpu_ns"]}"#);
    let mut stopped = subscriber(service.socket());
    let before = service.resident_bytes();
    let pid = Pid::from_raw(i32::try_from(stopped.pid().0).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let mut seq = other.event()["seq"].as_u64().unwrap();
    let mut most = 0;
    for _ in 0..MEANWHILE {
        let event = other.event();
        seq += 1;
        assert_eq!((event["seq"].as_u64(), event["dropped"].as_u64()), (Some(seq), Some(0)));
        most = most.max(service.resident_bytes());
    }
    println!("memory {before} bytes, with a stopped client at most {most}");
    assert!(most < before + BOUND, "{before} bytes became {most}");
    kill_process(pid, Signal::CONT).unwrap();
    let said = stopped.line();
    println!("after {MEANWHILE} ticks: {said}");
    let lost: u64 = said.strip_prefix("lost ").expect(&said).parse().unwrap();
    assert!(lost > 0);
}
