//! Programs that the library cannot be in, and what is said where they are executed.

use super::*;

#[test]
fn a_program_that_cannot_be_entered_is_told_when_it_is_executed() {
    let test = "a_program_that_cannot_be_entered_is_told_when_it_is_executed";
    if lab::skip_without(test, &["python3", "cc"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let program = static_program(&world);
    let name = program.to_str().expect("a name");
    let why = "without the library: it is statically linked, so there is no libc to take the place of; \
               its sockets are the kernel's";
    let (executed, started) = (
        format!("{name} was executed {why}"),
        format!("{name} was started {why}"),
    );
    let start = |way: &str| {
        let python = outboard.on_engine(&world, "python3");
        python
            .arg(script("starts_what_cannot_be_entered.py"))
            .args([way, name])
            .log(world.scratch().join(way))
            .start()
            .expect("python starts")
    };
    let told = |process: &Process| {
        let explain = outboard.command(&world, "explain");
        let explain = explain.arg(process.id().to_string());
        explain.output().expect("explained")
    };

    // By a shell, in a child of its own; twice, of which the log has once.
    for _ in 0..2 {
        let mut shell = outboard
            .on_engine(&world, "sh")
            .args(["-c", &format!("{name}; true")])
            .log(world.scratch().join("shell"))
            .start()
            .expect("a shell starts");
        await_line(&outboard, &world, &mut shell, |line| {
            line.contains("executed program") && line.ends_with(&executed)
        });
    }
    for way in ["exec", "by descriptor"] {
        let mut becomes = start(way);
        await_line(&outboard, &world, &mut becomes, |line| {
            line.ends_with(&executed)
        });
        let lines = told(&becomes);
        assert_eq!(lines.lines().count(), 2, "a heading and this: {lines}");
        // It has nothing of who was there before: neither rights nor a name at the engine.
        let fds = std::fs::read_dir(format!("/proc/{}/fd", becomes.id())).expect("it runs");
        let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        let sockets = links.filter(|link| link.to_string_lossy().starts_with("socket:"));
        assert_eq!(sockets.count(), 0, "{way}");
    }
    let mut spawns = start("spawn");
    await_line(&outboard, &world, &mut spawns, |line| {
        line.contains("started program") && line.ends_with(&started)
    });
    // Who stays is not what he would have been; who is not meant for the engine is not told of.
    let mut stays = start("fails");
    stays
        .wait_until(LIMIT, || {
            !std::fs::read(world.scratch().join("fails"))
                .unwrap_or_default()
                .is_empty()
        })
        .expect("it fails");
    assert!(!told(&stays).contains(name), "{}", told(&stays));
    let mut without = start("without");
    let exe = format!("/proc/{}/exe", without.id());
    without
        .wait_until(LIMIT, || {
            std::fs::read_link(&exe).is_ok_and(|runs| runs == program)
        })
        .expect("it is executed");
    assert!(!told(&without).contains("executed"), "{}", told(&without));

    let log = std::fs::read_to_string(world.scratch().join("engine.log")).expect("a log");
    assert_eq!(log.matches(&executed).count(), 1, "{log}");
    assert_eq!(log.matches(&started).count(), 1, "{log}");
}

#[test]
fn a_program_that_cannot_be_entered_is_not_executed_under_strict() {
    let test = "a_program_that_cannot_be_entered_is_not_executed_under_strict";
    if lab::skip_without(test, &["python3", "cc"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let program = static_program(&world);
    let name = program.to_str().expect("a name");
    let strict = |command: &[&str]| {
        let run = outboard.command(&world, "run").args(["--strict", "--"]);
        run.args(command).output()
    };
    // A shell says so of a program that it may not execute.
    let said = strict(&["sh", "-c", &format!("{name}; echo $?")]).expect("the shell goes on");
    assert_eq!(said.trim(), "126");
    let by_python = script("starts_what_cannot_be_entered.py");
    let by_python = by_python.to_str().expect("a name");
    for way in ["spawn", "exec", "by descriptor"] {
        let refused = strict(&["python3", by_python, way, name]).expect_err("an exception");
        let refused = format!("{refused:#}");
        assert!(refused.contains("PermissionError"), "{way}: {refused}");
    }
    // One that is not meant for the engine is nothing to it.
    let elsewhere = program.with_file_name("script");
    std::fs::write(&elsewhere, format!("#!{name}\n")).expect("a script");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&elsewhere, executable).expect("its mode");
    let said = strict(&["sh", "-c", &format!("{}; echo $?", elsewhere.display())]);
    assert_eq!(
        said.expect("the shell goes on").trim(),
        "126",
        "a script for it"
    );

    let log = std::fs::read_to_string(world.scratch().join("engine.log")).expect("a log");
    let refused = format!("{name} was not executed, because of --strict: it is statically linked");
    assert_eq!(log.matches(&refused).count(), 1, "{log}");
}

#[test]
fn a_program_whose_environment_does_not_name_the_engine_is_told_under_strict() {
    let test = "a_program_whose_environment_does_not_name_the_engine_is_told_under_strict";
    if lab::skip_without(test, &["env", "sleep", "python3"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let mut cleans = outboard
        .command(&world, "run")
        .args(["--strict", "--", "env", "-i", "sleep", "600"])
        .log(world.scratch().join("cleans"))
        .start()
        .expect("it starts");
    let told = "sleep was executed without the library: its environment does not name the engine \
                (OUTBOARD_SOCKET); its sockets are the kernel's";
    await_line(&outboard, &world, &mut cleans, |line| {
        line.contains("executed program") && line.ends_with(told)
    });
    let mut starts = outboard
        .command(&world, "run")
        .args(["--strict", "--", "python3"])
        .arg(script("starts_what_cannot_be_entered.py"))
        .args(["spawn without", "/bin/sleep"])
        .log(world.scratch().join("starts"))
        .start()
        .expect("it starts");
    let told = told.replace("sleep was executed", "/bin/sleep was started");
    await_line(&outboard, &world, &mut starts, |line| {
        line.contains("started program") && line.ends_with(&told)
    });
}
