//! What `outboard load` says of mistakes, and of servers that refuse, are late, or fail.

use super::{LIMIT, answer, json, load, respond};
use lab::{Side, World};
use std::net::TcpListener;
use std::sync::Mutex;
use std::time::Duration;

#[test]
fn mistakes_are_answered_by_what_to_do() {
    if lab::skip_without("mistakes_are_answered_by_what_to_do", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    for (arguments, expected) in [
        (&["https://10.77.0.1/"][..], "without encryption"),
        (&["http://no-such-host.invalid/"], "no-such-host.invalid"),
        (&["http://"], "names no server"),
        (&["http://10.77.0.9/"], "nobody answers for 10.77.0.9"),
        (
            &["http://10.77.0.1/", "--search", "-n", "5"],
            "leave out -n and -d",
        ),
        (&["http://10.77.0.1/", "-k", "0"], "-k 0 holds connections"),
        (
            &["http://10.77.0.1/", "-S", "10.77.0.2", "-c", "70000"],
            "give more by -S",
        ),
        (
            &["http://10.77.0.1/", "--sockets"],
            "--sockets needs a rate",
        ),
        (
            &[
                "http://10.77.0.1/",
                "--sockets",
                "-R",
                "9",
                "-S",
                "10.77.0.2",
            ],
            "-S does not go with --sockets",
        ),
        (
            &["http://10.77.0.1/", "--users", "5", "-R", "9"],
            "-R does not go with --users",
        ),
        (
            &["http://10.77.0.1/", "--users", "5", "-n", "9"],
            "-n does not go with --users",
        ),
        (
            &["http://10.77.0.1/", "--users", "5", "--head"],
            "--head does not go with --users",
        ),
        (
            &["http://10.77.0.1/", "--users", "2m"],
            "from 1 to a million",
        ),
        (
            &["http://10.77.0.1/", "--users", "1", "-d", "1us"],
            "none of 1 users has asked",
        ),
        (
            &["http://10.77.0.1/", "--sockets", "-R", "9", "-k", "5"],
            "-k other than 1 does not go with --sockets",
        ),
        (
            &[
                "http://10.77.0.1/",
                "--sockets",
                "-R",
                "9",
                "--timeout",
                "5s",
            ],
            "--timeout does not go with --sockets",
        ),
        (
            &["http://10.77.0.1/", "--plot", "/nonexistent/run.svg"],
            "cannot write --plot /nonexistent/run.svg",
        ),
        (
            &["http://10.77.0.1/", "--verify=/nonexistent", "-n", "1"],
            "/nonexistent",
        ),
        (
            &[
                "http://10.77.0.1/",
                "--responder-json",
                "/nonexistent",
                "-n",
                "1",
            ],
            "/nonexistent: No such file",
        ),
        (&["http://10.77.0.1/", "-i", "lo", "-n", "1"], "10.77.0.1"),
        (
            &["http://10.77.0.1/", "-S", "300.1.1.1", "-n", "1"],
            "300.1.1.1",
        ),
        (&["http://10.77.0.1/", "--sizes", "junk", "-n", "1"], "junk"),
        (&["http://10.77.0.1/", "-H", "junk", "-n", "1"], "junk"),
        (
            &["http://10.77.0.1/", "--path", "x", "-n", "1"],
            "must begin with a slash",
        ),
        (&["http://10.77.0.1/", "-t", "4"], "one thread"),
        (&["http://10.77.0.1/", "-s", "a.lua"], "no scripts"),
        (
            &["http://10.77.0.1/", "-m", "POST"],
            "GET, or HEAD by --head",
        ),
        (&["http://10.77.0.1/", "-z", "10s"], "-d 10s"),
        (&["http://10.77.0.1/", "-D", "10"], "-d 10s"),
        (&["http://10.77.0.1/", "--keepalive"], "--close"),
        (
            &["http://10.77.0.1/", "--timeout", "100ms"],
            "make --retry shorter",
        ),
        (
            &["http://10.77.0.1/{size}", "-n", "1"],
            "say which, by --sizes",
        ),
    ] {
        let (succeeded, said) = load(&world, arguments);
        assert!(!succeeded, "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_responder_that_holds_the_interface_is_named() {
    if lab::skip_without("a_responder_that_holds_the_interface_is_named", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let interface = Side::Client.interface();
    let peer = format!("--peer {}/{interface}", world.name(Side::Client));
    let (responder, _) = respond(&world, &peer);
    let (succeeded, said) = load(&world, &["http://10.77.0.1/", "-n", "1"]);
    assert!(!succeeded, "{said}");
    let holder = format!(
        "{interface} is held by `outboard respond --peer` (process {})",
        responder.id()
    );
    assert!(said.contains(&holder), "{said}");
    assert!(said.contains("without --peer"), "{said}");
    responder.stop(LIMIT).expect("an end");
}

#[test]
fn a_port_that_refuses_ends_the_load_with_an_error_for_each_try() {
    let test = "a_port_that_refuses_ends_the_load_with_an_error_for_each_try";
    if lab::skip_without(test, &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let picture = world.scratch().join("refused.svg");
    let plot = picture.display().to_string();
    let arguments = [
        "http://10.77.0.1:9/",
        "-n",
        "100",
        "-c",
        "8",
        "--plot",
        &plot,
    ];
    let (succeeded, said) = load(&world, &arguments);
    assert!(!succeeded, "{said}");
    assert!(
        said.contains("there is no picture") && !picture.exists(),
        "{said}"
    );
    assert!(said.contains("the server refuses connections"), "{said}");
    assert!(said.contains(" 100 errors"), "{said}");
    let (_, said) = load(&world, &["http://10.77.0.1:9/", "-n", "100", "--json"]);
    let said = json(&said);
    assert_eq!(
        (&said["errors"], &said["failed"]),
        (&100.into(), &1.0.into()),
        "{said:#}"
    );
}

#[test]
fn an_answer_that_comes_late_is_awaited_without_another_syn() {
    let test = "an_answer_that_comes_late_is_awaited_without_another_syn";
    if lab::skip_without(test, &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let listener = world
        .on(Side::Server, || {
            Ok(TcpListener::bind((Side::Server.ipv4(), 80))?)
        })
        .expect("a listener");
    // It answers half of its connections, after longer than the client takes to try again.
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for (index, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            if index % 2 == 1 {
                kept.push(stream);
                continue;
            }
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(500));
                answer(stream, &Mutex::new(Vec::new()));
            });
        }
    });
    let quick = [
        "--retry", "100ms", "--json", "-c", "2", "-n", "2", "--close",
    ];
    let ask = |more: &[&str]| {
        let arguments = [&["http://10.77.0.1/"], &quick[..], more].concat();
        let (succeeded, said) = load(&world, &arguments);
        (succeeded, json(&said))
    };
    // The one that is never answered is an error, either way.
    for (more, counter) in [
        (&["--grace", "3s"][..], "unfinished"),
        (&["--grace", "60s", "--timeout", "3s"], "timed_out"),
    ] {
        let (succeeded, said) = ask(more);
        assert!(!succeeded, "{said:#}");
        let counters = &said["counters"];
        assert_eq!(counters["responses"], 1, "{said:#}");
        assert_eq!(counters[counter], 1, "{said:#}");
        assert_eq!(said["errors"], 1, "{said:#}");
        assert_eq!(counters["syns_again"], 0, "{said:#}");
    }
}

#[test]
fn sockets_count_what_is_not_answered_by_the_end() {
    if lab::skip_without("sockets_count_what_is_not_answered_by_the_end", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let _silent = world
        .on(Side::Server, || {
            Ok(TcpListener::bind((Side::Server.ipv4(), 80))?)
        })
        .expect("a listener");
    let arguments = [
        "http://10.77.0.1/",
        "--sockets",
        "-R",
        "10",
        "-n",
        "4",
        "-c",
        "2",
    ];
    let (succeeded, said) = load(
        &world,
        &[&arguments[..], &["--grace", "2s", "--json"]].concat(),
    );
    assert!(!succeeded, "{said}");
    let said = json(&said);
    assert_eq!(
        (&said["requests"], &said["errors"]),
        (&0.into(), &4.into()),
        "{said:#}"
    );
    // The time is that in which they were due: to wait for their answers lowers no rate.
    assert!(
        said["seconds"]
            .as_f64()
            .is_some_and(|seconds| (0.2..2.0).contains(&seconds)),
        "{said:#}"
    );
}

#[test]
fn the_exit_status_tells_what_share_failed() {
    if lab::skip_without("the_exit_status_tells_what_share_failed", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let (responder, _) = respond(&world, "");
    let paths = [
        "http://10.77.0.1/?r=404",
        "--path",
        "/?s=10*3",
        "-n",
        "400",
        "--seed",
        "1",
    ];
    let (succeeded, said) = load(&world, &paths);
    assert!(!succeeded, "{said}");
    assert!(
        said.contains("% of what was tried; --max-errors allows 0 %"),
        "{said}"
    );
    let (succeeded, said) = load(&world, &[&paths[..], &["--max-errors", "50%"]].concat());
    assert!(succeeded, "{said}");
    let (succeeded, said) = load(&world, &[&paths[..], &["--max-errors", "1"]].concat());
    assert!(!succeeded && said.contains("allows 1 %"), "{said}");
    let (succeeded, said) = load(&world, &["http://10.77.0.1/?s=10", "-n", "400"]);
    assert!(succeeded, "{said}");
    responder.stop(LIMIT).expect("an end");
}
