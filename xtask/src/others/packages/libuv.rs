//! libuv's own tests: one program, which is started anew for each of them.

use super::printed;
use super::suite::{Suite, Tests};
use crate::shell;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const SUITE: Suite = Suite {
    name: "libuv",
    source: "libuv1",
    needs: &[
        ("/usr/bin/cmake", "cmake"),
        ("/usr/bin/cc", "gcc"),
        ("/usr/bin/dpkg-source", "dpkg-dev"),
    ],
    prepare,
    each: Duration::from_secs(60),
    all: Duration::from_secs(900),
    read: printed::by_status,
};

/// How the names of those begin that are about TCP.
const ABOUT_TCP: &[&str] = &[
    "callback_stack",
    "close_fd",
    "connect_unspecified",
    "connection_fail",
    "delayed_accept",
    "emfile",
    "getsockname_tcp",
    "handle_fileno",
    "ipc_listen",
    "ipc_send_recv_tcp",
    "ipc_tcp_connection",
    "listen_",
    "multiple_listen",
    "not_readable_nor_writable_on_read_error",
    "not_writable_after_shutdown",
    "poll_",
    "readable_on_eof",
    "shutdown_",
    "socket_buffer_size",
    "spawn_tcp_server",
    "tcp",
    "watcher_cross_stop",
];

fn prepare(source: &Path) -> Result<Tests> {
    let built = source.join("built");
    let configure = ["-DCMAKE_BUILD_TYPE=Debug", "-S"];
    shell::quiet(
        Command::new("cmake")
            .args(configure)
            .arg(source)
            .arg("-B")
            .arg(&built),
    )?;
    let target = ["--parallel", "--target", "uv_run_tests_a"];
    shell::quiet(
        Command::new("cmake")
            .arg("--build")
            .arg(&built)
            .args(target),
    )?;
    let program = built.join("uv_run_tests_a");
    // As root it refuses, unless it is told that this is meant.
    let as_root = ("UV_RUN_AS_ROOT", "1");
    let names = shell::quiet(
        Command::new(&program)
            .arg("--list")
            .env(as_root.0, as_root.1),
    )?;
    let mut command = Command::new(&program);
    command.current_dir(source).env(as_root.0, as_root.1);
    Ok(Tests {
        command,
        list: about_tcp(&names),
    })
}

/// Those that are about TCP, of a list with a line for each test, its name first.
fn about_tcp(list: &str) -> Vec<String> {
    let names = list.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| ABOUT_TCP.iter().any(|start| name.starts_with(start)))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_about_tcp_are_taken_by_their_names() {
        let list = "fs_stat\ntcp_close\ntcp_ping_pong   (helpers: tcp4_echo_server)\nidle_tcp\n";
        assert_eq!(about_tcp(list), ["tcp_close", "tcp_ping_pong"]);
    }
}
