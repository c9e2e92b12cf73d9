//! Servers by which people copy files.

use super::super::clients::Client;
use super::super::place::{PORT, Place};
use super::super::subject::{Clients, Subject};
use crate::process::Program;
use anyhow::Result;

fn rsync(place: &Place) -> Result<Vec<String>> {
    let module = place.path("module");
    std::fs::create_dir(&module)?;
    let configuration = place.write(
        "rsyncd.conf",
        &format!(
            "use chroot = no\nuid = root\ngid = root\npid file = {}\n\
             [module]\npath = {module}\nread only = no\n",
            place.path("rsync.pid")
        ),
    )?;
    Ok(place.command(&format!(
        "--daemon --no-detach --address=0.0.0.0 --port={PORT} --config={configuration}"
    )))
}

/// There, and back.
const RSYNC: Client = Client::of(
    "rsync -q $FILE rsync://$HOST:$PORT/module/$ID
     rsync -q rsync://$HOST:$PORT/module/$ID got
     cat got",
);

fn sshd(place: &Place) -> Result<Vec<String>> {
    // Debian's own service makes it when it starts.
    std::fs::create_dir_all("/run/sshd")?;
    for key in ["host", "user"] {
        Program::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &place.path(key)])
            .output()?;
    }
    let configuration = place.write(
        "sshd_config",
        &format!(
            "Port {PORT}
ListenAddress 0.0.0.0
HostKey {host}
PidFile none
AuthorizedKeysFile {user}.pub
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM yes
MaxStartups 1000
PerSourceMaxStartups none
Subsystem sftp internal-sftp
",
            host = place.path("host"),
            user = place.path("user"),
        ),
    )?;
    std::fs::create_dir(place.path("copies"))?;
    place.write("options", OPTIONS)?;
    Ok(place.command(&format!("-D -e -f {configuration}")))
}

const OPTIONS: &str = "BatchMode yes
IdentitiesOnly yes
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
";

/// There by scp, back by a command of the other side.
const SSH: Client = Client::of(
    "scp -q -F $DIR/options -i $DIR/user -P $PORT $FILE root@$HOST:$DIR/copies/$ID
     ssh -F $DIR/options -i $DIR/user -p $PORT root@$HOST cat $DIR/copies/$ID",
);

fn git_daemon(place: &Place) -> Result<Vec<String>> {
    let repositories = place.path("repositories");
    for name in ["small", "large"] {
        let repository = format!("{repositories}/{name}");
        let git = |words: &str| {
            Program::new("git")
                .args(["-C", &repository])
                .args(["-c", "user.name=lab", "-c", "user.email=lab@localhost"])
                .args(words.split_whitespace())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .output()
        };
        std::fs::create_dir_all(&repository)?;
        std::fs::copy(place.site.join(name), format!("{repository}/{name}"))?;
        git("init -q")?;
        git(&format!("add {name}"))?;
        git("commit -q -m content")?;
    }
    Ok(place.command(&format!(
        "daemon --listen=0.0.0.0 --port={PORT} --reuseaddr --export-all --max-connections=0 \
         --base-path={repositories}"
    )))
}

const CLONE: Client = Client::of(
    "git clone -q git://$HOST:$PORT/$NAME clone
     cat clone/$NAME",
);

/// It serves one client after another, and counts bytes (those of -F are not all right on the kernel either).
/// One client opens many connections, but no more than 128. The rate is in bits.
const IPERF: Client = Client {
    exchange: "iperf3 -c $HOST -p $PORT -n $SIZE >/dev/null
         iperf3 -c $HOST -p $PORT -n $SIZE -R >/dev/null
         cat $FILE",
    at_once: Some(
        "iperf3 -c $HOST -p $PORT -P 100 -t 2 >/dev/null
         iperf3 -c $HOST -p $PORT -P 100 -t 2 -R >/dev/null
         echo 100 of one",
    ),
    rate: Some(
        "iperf3 -c $HOST -p $PORT -t 2 -f m |
         sed -n 's,.* \\([0-9.]*\\) Mbits/sec .*receiver,\\1,p'",
    ),
};

/// The subjects of this family.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "rsync, daemon, there and back",
        packages: "rsync",
        program: "rsync",
        command: rsync,
        clients: Clients::Run(&RSYNC),
        ..Subject::WEB
    },
    Subject {
        name: "sshd, scp and ssh",
        packages: "openssh-server openssh-client",
        program: "/usr/sbin/sshd",
        also: &["ssh", "scp", "ssh-keygen"],
        command: sshd,
        clients: Clients::Run(&SSH),
        ..Subject::WEB
    },
    Subject {
        name: "git daemon, clone",
        packages: "git",
        program: "git",
        command: git_daemon,
        clients: Clients::Run(&CLONE),
        ..Subject::WEB
    },
    Subject {
        name: "iperf3",
        packages: "iperf3",
        program: "iperf3",
        command: |place| Ok(place.command(&format!("-s -B 0.0.0.0 -p {PORT}"))),
        clients: Clients::Run(&IPERF),
        ..Subject::WEB
    },
];
