//! Servers that start a program for each connection.

use super::super::exchange::Protocol;
use super::super::place::{PORT, Place};
use super::super::subject::{Clients, Subject};

fn socat(place: &Place, program: &str) -> Vec<String> {
    let listen = format!("TCP4-LISTEN:{PORT},fork,reuseaddr,backlog=512");
    place.command(&format!("{listen} {program}"))
}

const SOCAT: Subject = Subject {
    packages: "socat",
    program: "socat",
    clients: Clients::Speak(Protocol::Echo),
    ..Subject::WEB
};

/// The subjects of this family.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "socat, fork",
        command: |place| Ok(socat(place, "EXEC:cat")),
        ..SOCAT
    },
    Subject {
        name: "socat, fork, a program in its place",
        command: |place| Ok(socat(place, "EXEC:cat,nofork")),
        ..SOCAT
    },
];
