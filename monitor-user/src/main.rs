//! x
use monitor::backend::Backend;
use monitor::model::field::{Category, ProcessField};
use monitor::model::want::{Capability, Want};
fn main() {
    let t = std::time::Instant::now();
    let mut it = monitor::backend::ebpf::Ebpf::open(&[Capability::Lifetimes], 0).expect("open");
    eprintln!("open {:?}", t.elapsed());
    let want = Want { processes: true, ..Want::default() };
    let before = it.read(&want).expect("read");
    eprintln!("first {:?}", t.elapsed());
    std::thread::sleep(std::time::Duration::from_secs(2));
    let t = std::time::Instant::now();
    let now = it.read(&want).expect("read");
    eprintln!("read {:?}", t.elapsed());
    let rates = monitor::model::rates::rates(&before, now);
    for p in &rates.sample.processes {
        let v: Vec<String> = ProcessField::all()
            .filter_map(|f| Some(format!("{}={:?}", f.field().name, p.value(f)?)))
            .collect();
        println!("{} {:?} {:?}", p.comm(), p.text.path, v.join(" "));
    }
    eprintln!("{:?} {:?}\n{:#?}", rates.sample.lost, rates.sample.notes, it.probes());
}
