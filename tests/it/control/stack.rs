//! Backtraces and loader information.

use super::target::{Target, does, program, worker};
use crate::deadline;
use monitor_control::{FrameNames, LoadedImage, StackFrame, WorkerReply, WorkerRequest};

fn frames(target: &Target, names: FrameNames) -> Vec<StackFrame> {
    deadline::until(|| (target.states() == "S").then_some(()));
    match does(&mut worker(), WorkerRequest::Backtrace(target.whole(), 64, names)) {
        WorkerReply::Frames(frames) => frames,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stack_without_frame_pointers_is_walked_to_its_end() {
    let target = Target::new("dive", 1);
    let frames = frames(&target, FrameNames::With);
    let names: Vec<&str> = frames.iter().filter_map(|it| it.name.as_deref()).collect();
    // Six times `deep`, with what called it, and above that what began the program.
    let first = names.iter().position(|name| *name == "deep").unwrap();
    assert_eq!(
        names[first..first + 8],
        ["deep", "deep", "deep", "deep", "deep", "deep", "dive", "main"]
    );
    assert!(names.contains(&"_start"), "{names:?}");
    assert!(frames.windows(2).all(|pair| pair[0].cfa <= pair[1].cfa), "{frames:x?}");
}

#[test]
fn only_the_wanted_number_of_frames_is_returned() {
    let target = Target::new("dive", 1);
    let all = frames(&target, FrameNames::Without);
    assert!(all.iter().all(|it| it.name.is_none()));
    let WorkerReply::Frames(few) =
        does(&mut worker(), WorkerRequest::Backtrace(target.whole(), 3, FrameNames::Without))
    else {
        panic!()
    };
    assert_eq!(few, all[..3]);
}

#[test]
fn every_image_is_returned_with_its_sections() {
    let target = Target::new("slow", 1);
    let WorkerReply::Images(images) =
        does(&mut worker(), WorkerRequest::LoadedImages(target.whole()))
    else {
        panic!()
    };
    let named = |name: &str| -> &LoadedImage {
        images.iter().find(|it| String::from_utf8_lossy(&it.path).contains(name)).unwrap()
    };
    let own = named(program().file_name().unwrap().to_str().unwrap());
    let within = |part: (u64, u64), address: u64| (part.0..part.0 + part.1).contains(&address);
    assert!(within(own.code, target.at("tick")));
    assert!(within(own.data, target.at("text")), "it has a first value");
    assert!(within(own.bss, target.at("counters")), "it has none");
    assert!(!within(own.code, target.at("fixed")) && !within(own.data, target.at("fixed")));
    assert_eq!(named("libc.so").build_id.len(), 20);
    assert!(within(named("[vdso]").code, named("[vdso]").code.0));
}
