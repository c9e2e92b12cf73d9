//! What programs on the engine cannot have, and that the operator is told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Process, Program, World};

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/told")
        .join(name)
}

/// Waits until `outboard explain` has a line about `process` that `is_meant` accepts.
fn await_line(
    outboard: &Outboard,
    world: &World,
    process: &mut Process,
    is_meant: impl Fn(&str) -> bool,
) {
    let pid = process.id().to_string();
    let mut explained = String::new();
    let waited = process.wait_until(LIMIT, || {
        let explain = outboard.command(world, "explain").arg(&pid);
        explained = explain.output().unwrap_or_default();
        explained.lines().any(&is_meant)
    });
    let printed = process.printed();
    waited.unwrap_or_else(|error| panic!("{error:#}\n{explained}\n{printed}"));
}

#[test]
fn io_uring_is_refused_and_this_is_said() {
    if lab::skip_without("io_uring_is_refused_and_this_is_said", &["python3"]) {
        return;
    }
    let refused = |line: &str| {
        line.contains("call")
            && line.ends_with(
                "io_uring is refused: its calls do not pass through the engine; \
                 the program uses other calls",
            )
    };
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let start = |program: Program, when: &str| {
        program
            .arg(script("without_io_uring.py"))
            .arg(when)
            .log(world.scratch().join(when))
            .start()
            .expect("python starts")
    };
    let strict = outboard
        .command(&world, "run")
        .args(["--strict", "--", "python3"]);
    let mut strict = start(strict, "after");
    await_line(&outboard, &world, &mut strict, refused);
    drop(strict);

    let mut program = start(outboard.on_engine(&world, "python3"), "before");
    await_line(&outboard, &world, &mut program, refused);
    let printed = program.printed();
    let answers: Vec<_> = printed.lines().collect();
    assert_eq!(
        answers,
        [
            "syscall -1 ENOSYS",
            "io_uring_setup ENOSYS",
            "io_uring_queue_init ENOSYS",
            "io_uring_queue_init_params ENOSYS",
            "io_uring_queue_init_mem ENOSYS",
        ]
    );

    // An engine that comes later is told too.
    engine.kill().expect("the engine is killed");
    let _engine = outboard
        .start_engine(&world, None)
        .expect("another engine starts");
    await_line(&outboard, &world, &mut program, refused);
}
