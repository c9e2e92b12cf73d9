//! `outboard.h`: a C program that makes every call, on the engine and on the kernel, and the header
//! under the strictest compilers.

mod native_programs;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lab::outboard::{Outboard, total};
use lab::{Side, World};
use native_programs::{capi, compile, library, link, run};

/// How long anything may take before it counts as a hang.
const HANG: Duration = Duration::from_secs(60);
const PORT: u16 = 7000;
/// Where `against.c` listens.
const HERE: u16 = 7778;
/// Addresses of either kind.
const BOTH: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];

fn echo(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("an option");
    let mut bytes = [0; 1 << 16];
    loop {
        match stream.read(&mut bytes).expect("bytes to echo") {
            0 => break,
            read => stream.write_all(&bytes[..read]).expect("an echo"),
        }
    }
    stream.shutdown(Shutdown::Write).expect("an end");
}

/// Listens where somebody has listened before: a program that another test starts at that moment has what was closed
/// here until it is executed.
fn listen(at: SocketAddr) -> TcpListener {
    let start = Instant::now();
    loop {
        match TcpListener::bind(at) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && start.elapsed() < HANG => {}
            bound => return bound.expect("a port"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A private network, and a program in it; `None`, said aloud, where a test of that name cannot be made.
fn built(test: &str, source: &str) -> Option<(World, PathBuf)> {
    let library = library()?;
    if lab::skip_without(test, &["cc"]) {
        return None;
    }
    let world = World::new().expect("a private network");
    let program = compile(&world, &library, source);
    Some((world, program))
}

/// Runs the program on the server's side against an echo on the client's: with `words`, of which
/// the first says how, and `AT` stands for its address and port. Returns what it said last.
fn converse(
    world: &World,
    program: &Path,
    outboard: &Outboard,
    words: &[&str],
    like: IpAddr,
) -> String {
    converse_by(None, world, program, outboard, words, like)
}

/// As [`converse`], with sockets of the kernel's served by one of its ways.
fn converse_by(
    by: Option<&str>,
    world: &World,
    program: &Path,
    outboard: &Outboard,
    words: &[&str],
    like: IpAddr,
) -> String {
    let how = words[0];
    let address = match how {
        "listen" => World::address(Side::Server, like),
        _ => World::address(Side::Client, like),
    };
    let at = SocketAddr::from((address, PORT));
    let output = std::thread::scope(|scope| {
        let (bound, listens) = std::sync::mpsc::channel();
        scope.spawn(move || {
            world.enter(Side::Client).expect("the client's side");
            if how == "connect" {
                let listener = listen(at);
                bound.send(()).expect("a test");
                return echo(listener.accept().expect("a client").0);
            }
            bound.send(()).expect("a test");
            let start = Instant::now();
            // The kernel listens before the engine does.
            while words.ends_with(&["1"]) && !outboard.takes(PORT) {
                assert!(start.elapsed() < HANG, "nothing listens on the engine");
            }
            loop {
                match TcpStream::connect(at) {
                    Ok(stream) => return echo(stream),
                    Err(error) => assert!(start.elapsed() < HANG, "{error}"),
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        listens.recv().expect("a client");
        let mut program = world
            .program(Side::Server, program)
            .env("OUTBOARD_SOCKET", outboard.socket());
        if let Some(by) = by {
            program = program.env("OUTBOARD_KERNEL_SOCKETS", by);
        }
        program
            .args(words.iter().flat_map(|word| match *word {
                "AT" => vec![address.to_string(), PORT.to_string()],
                word => vec![word.to_owned()],
            }))
            .output()
            .expect("a program that ends well")
    });
    output.trim().lines().last().unwrap_or_default().to_owned()
}

#[test]
fn every_call_does_the_same_on_the_engine_and_on_the_kernel() {
    let test = "every_call_does_the_same_on_the_engine_and_on_the_kernel";
    let Some((world, program)) = built(test, "tests/conformance.c") else {
        return;
    };
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let converse = |how, mode, offloaded| {
        let offloaded = if offloaded { "1" } else { "0" };
        let words = [how, mode, "AT", offloaded];
        for like in BOTH {
            let said = converse(&world, &program, &outboard, &words, like);
            assert_eq!(said, "all as outboard.h says");
        }
    };
    // There is no engine yet.
    converse("listen", "any", false);
    converse("connect", "any", false);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    for how in ["listen", "connect"] {
        converse(how, "engine", true);
        converse(how, "any", true);
        converse(how, "kernel", false);
    }
    engine.stop(HANG).expect("an end");
}

/// Who resets what comes by the kernel would otherwise reset all its clients.
#[test]
fn who_wants_the_engine_alone_has_it_wherever_new_connections_are_placed() {
    let test = "who_wants_the_engine_alone_has_it_wherever_new_connections_are_placed";
    let Some((world, program)) = built(test, "tests/conformance.c") else {
        return;
    };
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine_with(&world, "placement = \"kernel\"\n");
    let words = ["listen", "engine", "AT", "1"];
    let said = converse(&world, &program, &outboard, &words, BOTH[0]);
    assert_eq!(said, "all as outboard.h says");
    engine.expect("an engine").stop(HANG).expect("an end");
}

#[test]
fn a_programs_own_memory_is_registered_on_the_engine_and_on_the_kernel() {
    let test = "a_programs_own_memory_is_registered_on_the_engine_and_on_the_kernel";
    let Some((world, program)) = built(test, "tests/memfd.c") else {
        return;
    };
    converses_in(&["engine", "any"], &world, &program);
}

#[test]
fn memory_is_in_use_as_long_as_something_names_it_and_then_a_program_is_told() {
    let test = "memory_is_in_use_as_long_as_something_names_it_and_then_a_program_is_told";
    let Some((world, program)) = built(test, "tests/registered.c") else {
        return;
    };
    converses_in(&["engine", "any"], &world, &program);
}

/// What people are shown is what was tried.
#[test]
fn the_send_that_waits_in_the_documentation_is_that_of_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shown = std::fs::read_to_string(root.join("docs/outboard-h.md")).expect("a file");
    let begin = shown
        .find("```c\n/* Sends from registered")
        .expect("an example");
    let example = &shown[begin + 5..];
    let example = &example[..example.find("```").expect("its end")];
    let tried = std::fs::read_to_string(capi().join("tests/registered.c")).expect("a file");
    assert!(tried.contains(example), "{example}");
}

#[test]
fn no_more_comes_ahead_than_the_receive_buffer_has() {
    let test = "no_more_comes_ahead_than_the_receive_buffer_has";
    let Some((world, program)) = built(test, "tests/ahead.c") else {
        return;
    };
    converses_in(&["engine", "any"], &world, &program);
}

#[test]
fn a_child_frees_what_it_has_of_its_parents_which_ends_nothing() {
    let test = "a_child_frees_what_it_has_of_its_parents_which_ends_nothing";
    let Some((world, program)) = built(test, "tests/forks.c") else {
        return;
    };
    converses_in(&["any"], &world, &program);
}

/// Runs a program that connects: without an engine, with one in these `modes`, and beside it.
fn converses_in(modes: &[&str], world: &World, program: &Path) {
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), world);
    let converse = |mode, offloaded| {
        let words = ["connect", mode, "AT", offloaded];
        for like in BOTH {
            let said = converse(world, program, &outboard, &words, like);
            assert_eq!(said, "all as outboard.h says");
        }
    };
    // There is no engine yet.
    converse("any", "0");
    let engine = outboard.start_engine(world, None).expect("an engine");
    for mode in modes {
        converse(mode, "1");
    }
    converse("kernel", "0");
    engine.stop(HANG).expect("an end");
}

#[test]
fn queues_are_told_apart_and_so_are_threads_in_one() {
    let test = "queues_are_told_apart_and_so_are_threads_in_one";
    says_all_by_itself(test, "tests/queues.c");
}

#[test]
fn an_option_is_the_one_that_the_kernel_has_by_that_name() {
    let test = "an_option_is_the_one_that_the_kernel_has_by_that_name";
    says_all_by_itself(test, "tests/options.c");
}

#[test]
fn what_is_sent_together_is_sent_once_and_whole() {
    let test = "what_is_sent_together_is_sent_once_and_whole";
    says_all_by_itself(test, "tests/kernel_sockets.c");
}

#[test]
fn what_is_sent_leaves_when_the_program_ends_and_once() {
    let test = "what_is_sent_leaves_when_the_program_ends_and_once";
    says_all_by_itself(test, "tests/exits.c");
}

/// By the environment, as for programs that leave it open. There is no engine.
#[test]
fn every_call_does_the_same_however_the_kernels_sockets_are_served() {
    let test = "every_call_does_the_same_however_the_kernels_sockets_are_served";
    for (source, hows) in [
        ("tests/conformance.c", &["listen", "connect"][..]),
        ("tests/registered.c", &["connect"]),
        ("tests/forks.c", &["connect"]),
    ] {
        let Some((world, program)) = built(test, source) else {
            return;
        };
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        for (how, by) in hows
            .iter()
            .flat_map(|how| [(*how, "epoll"), (*how, "io_uring")])
        {
            let words = [how, "kernel", "AT", "0"];
            let said = converse_by(Some(by), &world, &program, &outboard, &words, BOTH[0]);
            assert_eq!(said, "all as outboard.h says", "{source} by {by}");
        }
    }
}

/// Runs a program that is both ends.
fn says_all_by_itself(test: &str, source: &str) {
    let Some((world, program)) = built(test, source) else {
        return;
    };
    let said = world.program(Side::Server, &program).output();
    assert_eq!(said.expect("a program").trim(), "all as outboard.h says");
}

/// Takes connections in pairs, and does to the first of each what the second says: see `ends.c`.
fn misbehave(listener: &TcpListener, pairs: usize) {
    // What is sent to who does not read is not all acknowledged.
    rustix::net::sockopt::set_socket_recv_buffer_size(listener, 8192).expect("an option");
    for _ in 0..pairs {
        let mut first = Some(listener.accept().expect("a connection").0);
        let mut control = listener.accept().expect("its control").0;
        let mut byte = [0];
        while let Ok(1) = control.read(&mut byte) {
            match (byte[0], &first) {
                (b'h', Some(victim)) => victim.shutdown(Shutdown::Write).expect("an end"),
                (b'r', Some(victim)) => {
                    let at_once = Some(Duration::ZERO);
                    rustix::net::sockopt::set_socket_linger(victim, at_once).expect("an option");
                    first = None;
                }
                (b'd', Some(_)) => {
                    let mut victim = first.take().expect("a connection");
                    let large = rustix::net::sockopt::set_socket_recv_buffer_size(&victim, 1 << 20);
                    large.expect("an option");
                    // It ends with the connection.
                    std::thread::spawn(move || std::io::copy(&mut victim, &mut std::io::sink()));
                }
                (b'c', _) => {
                    let to = control.peer_addr().expect("an address").ip();
                    let mut comes = TcpStream::connect((to, HERE)).expect("a listener there");
                    comes.write_all(b"hello").expect("a connection");
                }
                (b'p', _) => {}
                _ => continue,
            }
            // The other end may be gone by now.
            let _ = control.write_all(b"k");
        }
    }
}

#[test]
fn full_buffers_and_resets_are_told_the_same_on_the_engine_and_on_the_kernel() {
    let test = "full_buffers_and_resets_are_told_the_same_on_the_engine_and_on_the_kernel";
    let Some((world, program)) = built(test, "tests/ends.c") else {
        return;
    };
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let converse = |mode: &str, offloaded: &str, like: IpAddr| {
        let at = SocketAddr::from((World::address(Side::Client, like), PORT));
        let address = at.ip().to_string();
        let listener = world.on(Side::Client, || Ok(listen(at))).expect("a port");
        let peer = std::thread::spawn(move || misbehave(&listener, 15));
        let said = world
            .program(Side::Server, &program)
            .env("OUTBOARD_SOCKET", outboard.socket())
            .args([mode, &address, &PORT.to_string(), offloaded])
            .output()
            .expect("a program that ends well");
        assert_eq!(said.trim(), "all as outboard.h says");
        peer.join().expect("a peer");
    };
    for like in BOTH {
        converse("any", "0", like);
    }
    let engine = outboard.start_engine(&world, None).expect("an engine");
    for like in BOTH {
        converse("any", "1", like);
        converse("kernel", "0", like);
    }
    engine.stop(HANG).expect("an end");
}

/// The calls that have a counterpart among the socket calls: what a program gets for the same is the same.
#[test]
fn a_program_gets_what_socket_calls_give_it_on_the_engine_and_on_the_kernel() {
    let test = "a_program_gets_what_socket_calls_give_it_on_the_engine_and_on_the_kernel";
    let Some((world, program)) = built(test, "tests/against.c") else {
        return;
    };
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let says = |mode: &str, way: &str, like: IpAddr| {
        let at = SocketAddr::from((World::address(Side::Client, like), PORT));
        let own = World::address(Side::Server, like).to_string();
        // The thread stays on the client's side, on which it begins.
        let begin = || {
            let listener = TcpListener::bind(at)?;
            Ok(std::thread::spawn(move || misbehave(&listener, 9)))
        };
        let peer = world.on(Side::Client, begin).expect("a peer");
        let said = world
            .program(Side::Server, &program)
            .env("OUTBOARD_SOCKET", outboard.socket())
            .args([mode, &at.ip().to_string(), &PORT.to_string(), &own, way])
            .output()
            .expect("a program that ends well");
        peer.join().expect("a peer");
        said
    };
    let wanted = BOTH.map(|like| says("sockets", "copies", like));
    assert!(wanted[0].lines().count() > 100, "{}", wanted[0]);
    assert_eq!(wanted[0], wanted[1], "the same of either family");
    let same = |mode: &str, what: &str| {
        for way in ["copies", "registered", "rooms", "posted", "memfd"] {
            for (like, wanted) in BOTH.iter().zip(&wanted) {
                assert_eq!(&says(mode, way, *like), wanted, "{what}: {way}");
            }
        }
    };
    same("any", "there is no engine yet");
    let engine = outboard.start_engine(&world, None).expect("an engine");
    let opened = || {
        let stats = outboard.stats().expect("counters");
        total(&stats, "tcp_active_opens") + total(&stats, "tcp_passive_opens")
    };
    same("any", "by the engine");
    let by_engine = opened();
    assert!(by_engine >= 5.0 * 38.0, "by the engine: {by_engine}");
    same("kernel", "beside the engine");
    assert_eq!(opened(), by_engine, "none of them by the engine");
    engine.stop(HANG).expect("an end");
}

/// What has a name of the header's and a bracket behind it, outside of comments.
fn calls(file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(capi().join(file)).expect("a file");
    let code: String = text
        .split("*/")
        .filter_map(|piece| piece.split("/*").next())
        .collect();
    let names = code.match_indices('(').map(|(at, _)| {
        let before = &code[..at];
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        &before[before.trim_end_matches(is_part).len()..]
    });
    let ours = names.filter(|name| name.starts_with("ob_"));
    ours.map(str::to_owned).collect()
}

#[test]
fn no_call_of_the_header_is_left_out() {
    let declared = calls("include/outboard.h");
    assert!(
        declared.len() > 45 && declared.contains("ob_queue_fd"),
        "{declared:?}"
    );
    let mut made = calls("tests/conformance.c");
    for file in ["memfd.c", "ends.c", "registered.c"] {
        made.append(&mut calls(&format!("tests/{file}")));
    }
    let left_out: Vec<_> = declared.difference(&made).cloned().collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// What people are told of the examples, and what the version is, in each place that says it.
#[test]
fn examples_are_short_and_the_version_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for folder in ["crates/capi/examples", "crates/native/examples"] {
        for entry in std::fs::read_dir(root.join(folder)).expect("examples") {
            let file = entry.expect("an example").path();
            let lines = std::fs::read_to_string(&file)
                .expect("text")
                .lines()
                .count();
            assert!(lines < 300, "{}: {lines} lines", file.display());
            seen += 1;
        }
    }
    assert!(seen >= 9, "{seen}");
    let header = std::fs::read_to_string(capi().join("include/outboard.h")).expect("a file");
    let defined = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(name));
        line.expect("a definition").trim().to_owned()
    };
    let (major, minor) = (
        defined("#define OB_VERSION_MAJOR"),
        defined("#define OB_VERSION_MINOR"),
    );
    let of_cargo = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
    ];
    assert_eq!([&*major, &*minor], of_cargo);
    let map = std::fs::read_to_string(capi().join("outboard.map")).expect("a file");
    assert!(
        map.contains(&format!("OUTBOARD_{major}.{minor} {{")),
        "{map}"
    );
    let pc = std::fs::read_to_string(root.join("packaging/outboard.pc")).expect("a file");
    let line = format!("\nVersion: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(pc.contains(&line), "{pc}");
}

/// Calls that no socket call is like: what they do is tried by themselves.
const WITHOUT_A_COUNTERPART: &str = "
    ob_attach ob_detach ob_is_attached ob_why_detached ob_can_offload ob_ctl ob_neigh ob_neigh_update
    ob_queue_new ob_queue_free ob_wake ob_version ob_set_admission ob_get_admitted
    ob_register ob_register_memfd ob_memory_data ob_memory_len ob_tell_when_free ob_unregister
    ob_register_file ob_file_is_offloaded ob_unregister_file ob_abandon";

#[test]
fn each_call_that_is_like_a_socket_call_is_held_against_it() {
    let declared = calls("include/outboard.h");
    let without: BTreeSet<_> = WITHOUT_A_COUNTERPART
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let strange: Vec<_> = without.difference(&declared).collect();
    assert!(strange.is_empty(), "{strange:?}");
    let files = ["against.c", "placed.h", "watched.h"];
    let made: BTreeSet<_> = files
        .iter()
        .flat_map(|file| calls(&format!("tests/{file}")))
        .collect();
    let left_out: Vec<_> = declared
        .iter()
        .filter(|call| !without.contains(*call) && !made.contains(*call))
        .collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

#[test]
fn the_shared_library_gives_what_the_header_declares() {
    let map = std::fs::read_to_string(capi().join("outboard.map")).expect("a file");
    let names = map.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let given: BTreeSet<_> = names
        .filter(|name| name.starts_with("ob_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(given, calls("include/outboard.h"));
}

/// From two sources, as a program has them: what the headers define is defined once.
#[test]
fn a_cpp_program_is_linked_and_runs() {
    let test = "a_cpp_program_is_linked_and_runs";
    let Some(library) = library() else { return };
    if lab::skip_without(test, &["c++"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let sources = [
        (
            "one.cpp",
            "#include <outboard.h>\n#include <tcps.h>\nint another();\nint main() {\n\
             ob_context *context;\nob_queue *queue;\nob_event event;\n\
             if (ob_attach(&context, nullptr, \"c++\", OB_KERNEL)) return 1;\n\
             if (ob_queue_new(context, &queue) || ob_wake(queue)) return 2;\n\
             if (ob_wait(queue, &event, 1, -1) != 1 || event.kind != OB_WAKE) return 3;\n\
             ob_queue_free(queue);\nob_detach(context);\n\
             return tcps_close(another()) ? 4 : 0;\n}\n",
        ),
        (
            "other.cpp",
            "#include <tcps.h>\nint another();\n\
             int another() { return tcps_socket(AF_INET, SOCK_STREAM, 0); }\n",
        ),
    ];
    let files = sources.map(|(name, source)| {
        let file = world.scratch().join(name);
        std::fs::write(&file, source).expect("a file");
        file
    });
    let program = world.scratch().join("cpp");
    link(("c++", "-std=c++17"), &files, &library, &program);
    run(&mut Command::new(program));
}

#[test]
fn the_papers_calls_are_there() {
    let test = "the_papers_calls_are_there";
    let Some((world, program)) = built(test, "tests/tcps.c") else {
        return;
    };
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let converse = || {
        for how in ["listen", "connect"] {
            let said = converse(&world, &program, &outboard, &[how, "AT"], BOTH[0]);
            assert_eq!(said, "all as tcps.h says");
        }
    };
    converse();
    let engine = outboard.start_engine(&world, None).expect("an engine");
    converse();
    engine.stop(HANG).expect("an end");
}

#[test]
fn the_headers_compile_as_strict_c_and_cpp() {
    let test = "the_headers_compile_as_strict_c_and_cpp";
    if lab::skip_without(test, &["cc", "c++"]) {
        return;
    }
    let scratch = std::env::temp_dir().join(format!("outboard-header-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a folder");
    // What programs were compiled with: these stay as they are.
    let sizes = [
        ("ob_event", 32),
        ("ob_setting", 8),
        ("ob_limit", 12),
        ("ob_admission", 32),
        ("ob_admitted", 48),
        ("ob_info", 184),
        ("ob_engine", 112),
        ("ob_way", 272),
        ("ob_piece", 3 * size_of::<usize>()),
        ("ob_span", 2 * size_of::<usize>() + 8),
    ];
    let sizes =
        sizes.map(|(of, size)| format!("typedef char {of}_is[sizeof({of}) == {size} ? 1 : -1];\n"));
    let source = format!(
        "#include <outboard.h>\n{}int main(void) {{ return 0; }}\n",
        sizes.concat()
    );
    let uses = "#include <tcps.h>\nint main(void) { return tcps_close(-1); }\n";
    let sources = [("h", source.as_str()), ("t", uses)];
    for (compiler, standard, ending) in [("cc", "-std=c99", "c"), ("c++", "-std=c++17", "cpp")] {
        for (name, source) in sources {
            let file = scratch.join(format!("{name}.{ending}"));
            std::fs::write(&file, source).expect("a file");
            run(Command::new(compiler)
                .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c"])
                .arg("-I")
                .arg(capi().join("include"))
                .arg(&file)
                .arg("-o")
                .arg(scratch.join("h.o")));
        }
    }
    std::fs::remove_dir_all(&scratch).expect("an empty place");
}
