//! Any member of a family of processes is killed, at any moment: nobody else notices, and when the last is
//! gone nothing stays.
//!
//! `OUTBOARD_TEST_KILLS` says how many are killed, `OUTBOARD_TEST_SEED` chooses others.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use lab::outboard::{Outboard, total};
use lab::{Process, Side, World};
use rustix::process::{Pid, Signal, kill_process};
use sim::Rng;

/// Only a hang takes longer.
const LIMIT: Duration = Duration::from_secs(60);
/// A request that a killed process has read nobody answers: it is repeated after so long.
const UNANSWERED: Duration = Duration::from_millis(200);
const CLIENTS: usize = 8;

fn address() -> SocketAddr {
    (Side::Server.ipv4(), 7000).into()
}

/// One end of a connection, and who has the other.
struct Client {
    stream: BufReader<TcpStream>,
    holders: BTreeSet<u32>,
    asked: u32,
}

/// What came of a question.
#[derive(Debug, PartialEq)]
enum Heard {
    Line(String),
    Nothing,
    End,
}

impl Client {
    fn connect(world: &World) -> std::io::Result<Self> {
        let connected = world.on(Side::Client, || {
            Ok(TcpStream::connect_timeout(&address(), LIMIT))
        });
        let stream = connected.expect("a network")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            holders: BTreeSet::new(),
            asked: 0,
        })
    }

    fn hear(&mut self, limit: Duration) -> Heard {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(limit)).expect("a limit");
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Heard::End,
            Ok(_) => Heard::Line(line.trim().to_owned()),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Heard::Nothing,
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Heard::End,
                _ => panic!("{error}"),
            },
        }
    }

    /// The number at the end of a line that begins so.
    fn number(&mut self, begin: &str) -> Option<u32> {
        match self.hear(LIMIT) {
            Heard::Line(line) => {
                let rest = line.strip_prefix(begin);
                let number = rest.and_then(|rest| rest.trim().parse().ok());
                Some(number.unwrap_or_else(|| panic!("{line} instead of {begin}")))
            }
            Heard::End => None,
            Heard::Nothing => panic!("{begin} never came"),
        }
    }

    /// Says a line in one piece: several processes may read from here.
    fn say(&self, line: &str) -> std::io::Result<()> {
        let line = format!("{line}\n");
        self.stream.get_ref().write_all(line.as_bytes())
    }

    fn ask(&mut self) {
        self.asked += 1;
        self.repeat();
    }

    /// Whoever has the other end may be gone by now.
    fn repeat(&mut self) {
        let _ = self.say(&self.asked.to_string());
    }

    /// What comes of the last question within so long.
    fn answer(&mut self, limit: Duration) -> Heard {
        loop {
            let heard = self.hear(limit);
            if let Heard::Line(line) = &heard {
                let number = line.split(' ').next().and_then(|word| word.parse().ok());
                // Answers to questions that were repeated come several times.
                if number.is_some_and(|number: u32| number < self.asked) {
                    continue;
                }
                assert_eq!(number, Some(self.asked), "{line}");
            }
            return heard;
        }
    }
}

/// A family that lives, with its clients.
struct Family<'a> {
    world: &'a World,
    process: Process,
    master: Option<u32>,
    workers: BTreeSet<u32>,
    children: BTreeSet<u32>,
    /// Workers that were heard of.
    seen: usize,
    clients: Vec<Client>,
}

impl<'a> Family<'a> {
    fn start(world: &'a World, outboard: &Outboard) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kills/family.py");
        let mut process = outboard
            .on_engine(world, "python3")
            .arg(script)
            .log(world.scratch().join("family.log"))
            .start()
            .expect("python starts");
        process
            .wait_until(LIMIT, || outboard.takes(7000))
            .expect("it listens");
        Self {
            world,
            master: Some(process.id()),
            process,
            workers: BTreeSet::new(),
            children: BTreeSet::new(),
            seen: 0,
            clients: Vec::new(),
        }
    }

    /// Waits until the master has said of so many workers that it has begun them.
    fn hear_of_workers(&mut self, count: usize) {
        let begin = Instant::now();
        loop {
            let printed = self.process.printed();
            let said = printed
                .lines()
                .filter_map(|line| line.strip_prefix("worker ")?.parse().ok());
            let all: Vec<u32> = said.collect();
            if all.len() >= count {
                self.workers.extend(&all[self.seen..]);
                self.seen = all.len();
                return;
            }
            assert!(begin.elapsed() < LIMIT, "no new worker:\n{printed}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn accepts(&self) -> bool {
        self.master.is_some() || !self.workers.is_empty()
    }

    /// Has as many clients as there are to be, some of connections that two processes serve.
    fn fill(&mut self, rng: &mut Rng) {
        while self.accepts() && self.clients.len() < CLIENTS {
            let mut client = Client::connect(self.world).expect("somebody listens");
            let worker = client.number("hello").expect("nobody dies now");
            assert!(self.workers.contains(&worker), "{worker} is not known");
            client.holders.insert(worker);
            if rng.below(2) == 0 {
                client.say("share").expect("it is connected");
                let child = client.number("shared").expect("nobody dies now");
                client.holders.insert(child);
                self.children.insert(child);
            }
            self.clients.push(client);
        }
    }

    /// Kills one, and looks whether the others go on.
    fn kill_one(&mut self, rng: &mut Rng) {
        let members: Vec<u32> = (self.master.iter().copied())
            .chain(self.workers.iter().copied())
            .chain(self.children.iter().copied())
            .collect();
        let victim = rng.pick(&members);
        // In the middle of everything, or when all is said.
        let amidst = rng.below(2) == 0;
        let mut newcomer = None;
        if amidst {
            self.clients.iter_mut().for_each(Client::ask);
            if self.accepts() {
                newcomer = Some(Client::connect(self.world).expect("somebody listens"));
            }
        }
        let pid = Pid::from_raw(victim as i32).expect("a process");
        kill_process(pid, Signal::KILL).expect("it lives");
        let was_worker = self.workers.remove(&victim);
        self.children.remove(&victim);
        if self.master == Some(victim) {
            self.master = None;
            // Those that it had begun and nobody has heard of yet.
            self.hear_of_workers(self.seen);
        } else if was_worker && self.master.is_some() {
            self.hear_of_workers(self.seen + 1);
        }
        let mut clients = std::mem::take(&mut self.clients);
        for client in &mut clients {
            let concerned = client.holders.remove(&victim);
            if !amidst && !client.holders.is_empty() {
                client.ask();
            }
            look(client, concerned && amidst, victim);
        }
        clients.retain(|client| !client.holders.is_empty());
        self.clients = clients;
        if let Some(newcomer) = newcomer {
            self.greet(newcomer, victim);
        }
    }

    /// One that has connected while somebody was killed is served, or hears of the end.
    fn greet(&mut self, mut newcomer: Client, victim: u32) {
        match newcomer.number("hello") {
            Some(worker) if worker != victim => {
                assert!(self.workers.contains(&worker), "{worker} is not known");
                newcomer.holders.insert(worker);
                newcomer.ask();
                look(&mut newcomer, false, victim);
                self.clients.push(newcomer);
            }
            Some(_) => assert_eq!(newcomer.hear(LIMIT), Heard::End),
            None => {}
        }
    }

    fn is_gone(&self) -> bool {
        self.master.is_none() && self.workers.is_empty() && self.children.is_empty()
    }
}

/// A client's question is answered if anybody is left who has the connection, and else it ends. What a process
/// had read that was killed may have to be asked again.
fn look(client: &mut Client, may_be_lost: bool, victim: u32) {
    let begin = Instant::now();
    if client.holders.is_empty() {
        while client.hear(LIMIT) != Heard::End {
            assert!(begin.elapsed() < LIMIT, "it goes on without {victim}");
        }
        return;
    }
    let limit = if may_be_lost { UNANSWERED } else { LIMIT };
    loop {
        match client.answer(limit) {
            Heard::Line(_) => return,
            Heard::Nothing if may_be_lost && begin.elapsed() < LIMIT => client.repeat(),
            other => panic!(
                "{other:?} of a connection of {:?}, when {victim} was killed",
                client.holders
            ),
        }
    }
}

/// Nothing of a family is left at the engine, and nobody listens.
fn nothing_stays(world: &World, outboard: &Outboard) {
    let begin = Instant::now();
    loop {
        let rows = outboard.sockets().expect("the engine answers");
        let left = |row: &&serde_json::Value| row["state"] != "TIME-WAIT";
        let left: Vec<_> = rows.iter().filter(left).collect();
        let held = |name| total(&outboard.stats().expect("the engine answers"), name);
        let memory = held("receive_memory") + held("send_memory");
        if left.is_empty() && memory == 0.0 {
            break;
        }
        assert!(begin.elapsed() < LIMIT, "{memory} bytes and {left:?} stay");
        std::thread::sleep(Duration::from_millis(10));
    }
    let refused = Client::connect(world).err().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
}

#[test]
fn whoever_is_killed_nobody_else_notices() {
    if lab::skip_without("whoever_is_killed_nobody_else_notices", &["python3"]) {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let seed = number("OUTBOARD_TEST_SEED").unwrap_or(1);
    let kills = number("OUTBOARD_TEST_KILLS").unwrap_or(60);
    println!("OUTBOARD_TEST_SEED={seed}");
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let _engine = outboard.start_engine(&world, None).expect("an engine");
    let mut rng = Rng::new(seed);
    let mut killed = 0;
    while killed < kills {
        let mut family = Family::start(&world, &outboard);
        family.hear_of_workers(4);
        while !family.is_gone() {
            family.fill(&mut rng);
            family.kill_one(&mut rng);
            killed += 1;
        }
        family.process.wait(LIMIT).expect("it was killed");
        nothing_stays(&world, &outboard);
    }
    let counters = outboard.stats().expect("the engine answers");
    assert_eq!(total(&counters, "violations"), 0.0);
    assert!(total(&counters, "grants_moved") > 0.0, "nobody shared");
    println!("{killed} killed");
}
