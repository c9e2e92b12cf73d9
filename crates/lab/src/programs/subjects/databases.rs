//! Databases, with their own clients: what was sent as text is stored, and read back.

use super::super::clients::Client;
use super::super::place::{PORT, Place};
use super::super::serving::Reload;
use super::super::subject::{Clients, Subject};
use crate::tool;
use anyhow::Result;
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::io::Write;

/// Puts the words in front that make a program another user's. PostgreSQL refuses to be root's.
const AS_POSTGRES: &str = "setpriv --reuid=postgres --regid=postgres --init-groups --";

fn postgresql(place: &Place) -> Result<Vec<String>> {
    let data = place.path("data");
    tool::run(&format!("install -d -o postgres -g postgres -m 700 {data}"))?;
    let initdb = place.program.with_file_name("initdb");
    tool::run(&format!(
        "{AS_POSTGRES} {} -D {data} -A trust -E UTF8 --locale=C.UTF-8 --no-sync",
        initdb.display()
    ))?;
    let mut rules = OpenOptions::new()
        .append(true)
        .open(format!("{data}/pg_hba.conf"))?;
    writeln!(rules, "host all all all trust")?;
    let server = place.program.display();
    let line = format!(
        "{AS_POSTGRES} {server} -D {data} -p {PORT} -c listen_addresses=0.0.0.0 -c max_connections=300 \
         -c unix_socket_directories={data} -c fsync=off"
    );
    Ok(line.split_whitespace().map(str::to_owned).collect())
}

/// A table of text, filled and read back in one session.
const PSQL: Client = Client {
    exchange: r"base64 $FILE |
        /usr/lib/postgresql/*/bin/psql -h $HOST -p $PORT -U postgres -d postgres -qAtX -v ON_ERROR_STOP=1 \
            -c 'create temp table t (place serial, line text)' \
            -c '\copy t (line) from pstdin' \
            -c 'copy (select line from t order by place) to stdout' |
        base64 -d",
    at_once: Some(
        r#"measured() { /usr/lib/postgresql/*/bin/pgbench -h $HOST -p $PORT -U postgres "$@" postgres; }
        measured -i -q
        measured -n -S -c 200 -j 4 -t 50 >said
        grep -q 'actually processed: 10000/10000' said
        echo all"#,
    ),
    rate: Some(
        r"/usr/lib/postgresql/*/bin/pgbench -h $HOST -p $PORT -U postgres -n -S -c 8 -j 2 -T 3 postgres |
        sed -n 's/^tps = \([0-9.]*\).*/\1/p'",
    ),
};

fn mariadb(place: &Place) -> Result<Vec<String>> {
    let (data, users) = (place.path("data"), place.write("users.sql", USERS)?);
    tool::run(&format!("install -d -o mysql -g mysql -m 700 {data}"))?;
    tool::run(&format!(
        "mariadb-install-db --no-defaults --user=mysql --datadir={data} --skip-test-db \
         --auth-root-authentication-method=normal"
    ))?;
    Ok(place.command(&format!(
        "--no-defaults --user=mysql --datadir={data} --port={PORT} --bind-address=0.0.0.0 \
         --socket={data}/socket --pid-file={data}/pid --init-file={users} --skip-name-resolve \
         --max-connections=300 --max-allowed-packet=64M --innodb-flush-log-at-trx-commit=0"
    )))
}

const USERS: &str = "CREATE USER lab@'%';\nGRANT ALL ON *.* TO lab@'%';\n";

/// One long statement there, one long row back.
const MARIADB: Client = Client::of(
    r#"{ printf "select '"; base64 -w 0 $FILE; printf "';\n"; } |
       mariadb --no-defaults -h $HOST -P $PORT -u lab --skip-ssl --max-allowed-packet=64M -N --raw |
       base64 -d"#,
);

/// The subjects of this family.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "PostgreSQL, pgbench",
        packages: "postgresql postgresql-client",
        program: "/usr/lib/postgresql/*/bin/postgres",
        also: &[
            "/usr/lib/postgresql/*/bin/psql",
            "/usr/lib/postgresql/*/bin/pgbench",
        ],
        command: postgresql,
        clients: Clients::Run(&PSQL),
        reload: Some(Reload::Signal(Signal::HUP)),
        ..Subject::WEB
    },
    Subject {
        name: "MariaDB",
        packages: "mariadb-server mariadb-client",
        program: "mariadbd",
        also: &["mariadb-install-db", "mariadb"],
        command: mariadb,
        clients: Clients::Run(&MARIADB),
        ..Subject::WEB
    },
];
