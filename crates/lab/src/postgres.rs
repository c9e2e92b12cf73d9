//! PostgreSQL, which refuses to be root's.

use crate::tool;
use anyhow::{Context, Result};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where Debian has the server, of whichever version.
pub const SERVER: &str = "/usr/lib/postgresql/*/bin/postgres";
/// The client that measures.
pub const PGBENCH: &str = "/usr/lib/postgresql/*/bin/pgbench";

/// The client that says what it is told.
pub const PSQL: &str = "/usr/lib/postgresql/*/bin/psql";

/// Puts the words in front that make a program another user's.
const AS_POSTGRES: &str = "setpriv --reuid=postgres --regid=postgres --init-groups --";

/// Makes a database in `data`, which everybody may ask, and returns the command of a server for it.
///
/// # Errors
/// There is no user for it, or it cannot be made.
pub fn prepare(server: &Path, data: &Path, port: u16) -> Result<Vec<String>> {
    let shown = data.display();
    tool::run(&format!(
        "install -d -o postgres -g postgres -m 700 {shown}"
    ))?;
    let initdb: PathBuf = server.with_file_name("initdb");
    tool::run(&format!(
        "{AS_POSTGRES} {} -D {shown} -A trust -E UTF8 --locale=C.UTF-8 --no-sync",
        initdb.display()
    ))?;
    let rules = data.join("pg_hba.conf");
    let mut rules = OpenOptions::new()
        .append(true)
        .open(&rules)
        .with_context(|| format!("cannot write {}", rules.display()))?;
    writeln!(rules, "host all all all trust")?;
    let line = format!(
        "{AS_POSTGRES} {} -D {shown} -p {port} -c listen_addresses=0.0.0.0 -c max_connections=300 \
         -c unix_socket_directories={shown} -c dynamic_shared_memory_type=mmap -c fsync=off",
        server.display()
    );
    Ok(line.split_whitespace().map(str::to_owned).collect())
}
