//! Stores of keys and values.

use super::super::exchange::Protocol;
use super::super::place::{PORT, Place};
use super::super::subject::{Clients, Subject};

fn redis(place: &Place, further: &str) -> Vec<String> {
    place.command(&format!(
        "--port {PORT} --bind 0.0.0.0 --protected-mode no --save 1 1 --dir {} {further}",
        place.directory.display()
    ))
}

const REDIS: Subject = Subject {
    packages: "redis-server",
    program: "redis-server",
    clients: Clients::Speak(Protocol::Redis),
    ..Subject::WEB
};

/// The subjects of this family.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "redis",
        command: |place| Ok(redis(place, "")),
        ..REDIS
    },
    Subject {
        name: "redis, 4 I/O threads, saving",
        command: |place| Ok(redis(place, "--io-threads 4 --io-threads-do-reads yes")),
        ..REDIS
    },
    Subject {
        name: "memcached, 4 threads",
        packages: "memcached",
        program: "memcached",
        command: |place| Ok(place.command(&format!("-u root -p {PORT} -U 0 -t 4 -l 0.0.0.0"))),
        clients: Clients::Speak(Protocol::Memcached),
        most: Some(500_000),
        ..Subject::WEB
    },
];
