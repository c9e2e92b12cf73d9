//! Makes socket calls and writes down what each returned.
//!
//! `socket_calls agent UNIX_PATH ADDRESS` is the other end: it does what it is told over a UNIX
//! socket. `socket_calls subject UNIX_PATH ADDRESS` runs the scenarios, against the agent at
//! ADDRESS, and prints a line for each call. Run on the kernel and on the engine, the two prints
//! must be the same: that is what "unmodified programs" means.

mod agent;
mod calls;
mod scenarios;

use std::net::IpAddr;
use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, path, address, only @ ..] = &arguments[..] else {
        panic!("socket_calls agent|subject UNIX_PATH ADDRESS [SCENARIO]");
    };
    let path = Path::new(path);
    let address: IpAddr = address.parse().expect("an address");
    match role.as_str() {
        "agent" => agent::serve(path, address),
        "subject" => scenarios::run(
            &mut agent::Agent::at(path),
            address,
            only.first().map(String::as_str),
        ),
        other => panic!("no such role: {other}"),
    }
}
