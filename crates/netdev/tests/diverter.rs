//! The steering's slot for a program of the user's, in the kernel's own test run, with the example that
//! answers pings.

#[path = "steering/bench.rs"]
mod bench;
mod common;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use bench::{Bench, OURS, PEER, PORT, v4};
use common::Frame;
use netdev::diverter::{Diverter, verdicts};
use netdev::steering::{Reason, SteeringError, Verdict};

/// It steers port 80.
fn bench() -> Bench {
    Bench::of(&[OURS.into()])
}

/// An object of the example in examples/divert, as a user makes it; `None`, and a line that says so, without clang.
fn example(name: &str, source: &str) -> Option<PathBuf> {
    let object =
        std::env::temp_dir().join(format!("outboard-divert-{}-{name}.o", std::process::id()));
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/divert");
    let source = source.replace(
        "\"outboard_divert.h\"",
        &format!("\"{examples}/outboard_divert.h\""),
    );
    let file = object.with_extension("c");
    std::fs::write(&file, source).expect("a file");
    let include = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let made = std::process::Command::new("clang")
        .args([
            "--target=bpf",
            "-mcpu=v3",
            "-O2",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
        ])
        .args(["-isystem", &include, "-c"])
        .arg(&file)
        .arg("-o")
        .arg(&object)
        .status();
    std::fs::remove_file(file).expect("it was made");
    match made {
        Ok(status) => assert!(status.success(), "clang refuses the example"),
        Err(_) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "SKIPPED (needs clang): {name}");
            return None;
        }
    }
    Some(object)
}

const ECHO: &str = include_str!("../../../examples/divert/icmp_echo.bpf.c");

/// An ICMP message of this type to us.
fn icmp(kind: u8) -> Frame {
    v4().with(|frame| {
        frame.protocol = 1;
        frame.upper = Some(vec![kind, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    })
}

#[test]
fn a_program_in_the_slot_decides_about_what_is_nobodys() {
    if lab::skip_without_root("a_program_in_the_slot_decides_about_what_is_nobodys") {
        return;
    }
    let Some(object) = example("echo", ECHO) else {
        return;
    };
    let mut bench = bench();
    bench.expect("no program", &icmp(8), Verdict::Kernel, Reason::NotTcp);
    let loaded = Diverter::load(&object, None).expect("the kernel takes it");
    assert_eq!(loaded.name, "answer_echo");
    bench
        .steering
        .divert(Some(loaded.program.as_fd()))
        .expect("it is called");
    // Who loaded it may be gone.
    drop(loaded.program);
    bench.expect("a ping", &icmp(8), Verdict::Transmit, Reason::Diverter);
    bench.expect("an answer", &icmp(0), Verdict::Kernel, Reason::Diverter);
    let other_port = v4().with(|frame| frame.dst_port = PORT + 1);
    bench.expect(
        "another port",
        &other_port,
        Verdict::Kernel,
        Reason::Diverter,
    );
    let arp = {
        let mut frame = v4().build();
        frame[12..14].copy_from_slice(&[0x08, 0x06]);
        frame
    };
    assert_eq!(bench.run(&arp), (Verdict::Kernel, Reason::Diverter));
    let group = v4().with(|frame| frame.dst_mac[0] = 1);
    bench.expect("a group", &group, Verdict::Kernel, Reason::Diverter);
    // What is the engine's is not shown to it, and neither is what nobody can read.
    bench.expect("ours", &v4(), Verdict::Redirect, Reason::Engine);
    let about_ours = v4().with(|frame| {
        (frame.src, frame.dst) = (frame.dst, frame.src);
        (frame.src_port, frame.dst_port) = (frame.dst_port, frame.src_port);
    });
    let error = about_ours.icmp_error(PEER, 3, 4, 1_400);
    bench.expect(
        "an error about ours",
        &error,
        Verdict::Redirect,
        Reason::EngineError,
    );
    let mut cut = v4().build();
    cut.truncate(30);
    assert_eq!(bench.run(&cut), (Verdict::Kernel, Reason::Truncated));
    let decided = verdicts(loaded.id).expect("it counts");
    assert_eq!(
        (decided.answered, decided.passed, decided.dropped),
        (1, 4, 0)
    );

    bench.steering.divert(None).expect("it is taken out");
    bench.expect("a ping", &icmp(8), Verdict::Kernel, Reason::NotTcp);
    bench.steering.divert(None).expect("and once more");
    std::fs::remove_file(object).expect("it was made");
}

#[test]
fn what_cannot_be_called_is_refused() {
    if lab::skip_without_root("what_cannot_be_called_is_refused") {
        return;
    }
    let said = |object: &Path, name| {
        Diverter::load(object, name)
            .expect_err("refused")
            .to_string()
    };
    assert!(said(Path::new("/nowhere"), None).contains("cannot read"));
    assert!(said(Path::new("/bin/true"), None).contains("no object of clang"));
    let Some(object) = example("two", &ECHO.replace("char LICENSE", "SEC(\"xdp\") int second(struct xdp_md *context)\n{\n\treturn context ? XDP_PASS : XDP_DROP;\n}\nchar LICENSE"))
    else {
        return;
    };
    assert!(said(&object, None).contains("answer_echo") && said(&object, None).contains("second"));
    assert!(said(&object, Some("third")).contains("--program"));
    // It is not for frames in several buffers: the kernel would not call it.
    let second = Diverter::load(&object, Some("second")).expect("a program");
    let mut bench = bench();
    let refused = bench.steering.divert(Some(second.program.as_fd()));
    assert!(
        matches!(refused, Err(SteeringError::Call(_))),
        "{refused:?}"
    );
    // One that reads behind the frame.
    let Some(wild) = example(
        "wild",
        &ECHO.replace("(void *)(icmp + 1) > end", "(void *)(ethernet + 1) > end"),
    ) else {
        return;
    };
    assert!(said(&wild, None).contains("does not take it"));
    for object in [object, wild] {
        std::fs::remove_file(object).expect("it was made");
    }
}
