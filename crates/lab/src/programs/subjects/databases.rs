//! Databases, with their own clients: what was sent as text is stored, and read back.

use super::super::clients::Client;
use super::super::place::{PORT, Place};
use super::super::serving::Reload;
use super::super::subject::{Clients, Subject};
use crate::{postgres, tool};
use anyhow::Result;
use rustix::process::Signal;

fn postgresql(place: &Place) -> Result<Vec<String>> {
    postgres::prepare(&place.program, &place.directory.join("data"), PORT)
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
        program: postgres::SERVER,
        also: &["/usr/lib/postgresql/*/bin/psql", postgres::PGBENCH],
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
