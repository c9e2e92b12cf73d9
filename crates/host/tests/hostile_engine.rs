//! An engine that says anything at all: a program that has registered memory under way, views, rooms and
//! posted buffers goes on, or loses its connections as if the engine had died. Nothing panics, and no memory
//! is given to two.

mod fake_engine;

use std::sync::atomic::Ordering;

use fake_engine::FakeEngine;
use host::{Errno, Readiness, Registered, Room, Session, Shutdown, Socket, View};
use queue_pair::{Completion, ConnRef, Sizes, Submission};

/// How many engines, and how much each of them says.
const ENGINES: u64 = 100;
const WORDS: usize = 120;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A number that is likely to be near something that matters.
    fn near(&mut self, these: &[u64]) -> u64 {
        let base = these[self.below(these.len() as u64) as usize];
        match self.below(6) {
            0..4 => base,
            4 => base.wrapping_add(self.below(5)).wrapping_sub(2),
            _ => self.next() >> self.below(64),
        }
    }
}

/// What a program has.
struct Program {
    session: Session,
    sockets: Vec<(ConnRef, Socket)>,
    views: Vec<(usize, View)>,
    rooms: Vec<(usize, Room)>,
    memory: Vec<Registered>,
}

impl Program {
    /// Does something that a program may do.
    fn act(&mut self, random: &mut Random) {
        let at = random.below(self.sockets.len() as u64) as usize;
        let socket = &self.sockets[at].1;
        let memory = random.below(self.memory.len() as u64) as usize;
        match random.below(11) {
            0 => {
                let _ = socket.recv(&mut [0; 500]);
            }
            1 => {
                if let Ok(Some(view)) = socket.view(1 + random.below(3000) as usize) {
                    // Any bytes, but bytes.
                    let bytes = view.bytes().expect("this process's");
                    assert_eq!(bytes.len(), view.len());
                    bytes[0].load(Ordering::Relaxed);
                    self.views.push((at, view));
                }
            }
            2 if !self.views.is_empty() => {
                let (of, view) = self
                    .views
                    .swap_remove(random.below(self.views.len() as u64) as usize);
                let _ = self.sockets[of].1.release(view);
            }
            3 => {
                if let Ok(room) = socket.room(1 + random.below(5000) as usize) {
                    room.bytes().expect("this process's")[0].store(7, Ordering::Relaxed);
                    self.rooms.push((at, room));
                }
            }
            4 if !self.rooms.is_empty() => {
                let (of, room) = self.rooms.pop().expect("one");
                let _ = self.sockets[of]
                    .1
                    .commit(room, random.below(100) as usize, false);
            }
            5 => {
                let _ = socket.send(&[3; 300], false);
            }
            6 => {
                let (from, len) = (random.below(4000) as usize, random.below(4000) as usize);
                let _ = socket.send_registered(&self.memory[memory], from, len, false);
            }
            7 | 8 => {
                let (from, len) = (random.below(4000) as usize, random.below(4000) as usize);
                let _ = socket.post(&self.memory[memory], from, len, random.next());
            }
            9 => socket.take_placed(random.below(100) as u32, |placed| {
                assert!(placed.filled < 4000);
                assert!(!placed.is_full || placed.is_back);
            }),
            _ => {
                let _ = socket.readiness().intersects(Readiness::IN);
                let _ = (
                    socket.take_error(),
                    socket.available(),
                    socket.acknowledged(),
                );
                if random.below(40) == 0 {
                    let _ = socket.shutdown(Shutdown::Write);
                }
            }
        }
        self.session.pump();
    }
}

/// Something that an engine can say, true or not.
fn say(random: &mut Random, conn: ConnRef, places: &[u64]) -> Completion {
    let conn = match random.below(12) {
        0 => ConnRef {
            index: random.near(&[0, 1, 2, 65_535, 65_536, u64::from(u32::MAX)]) as u32,
            generation: random.below(3) as u32,
        },
        _ => conn,
    };
    let addr = random.near(places);
    let len = random.near(&[0, 1, 10, 1000, 4096, u64::from(u32::MAX)]) as u32;
    let acked = random.near(&[0, 0, 0, 1, 300, 4000, u64::MAX]);
    let peer_closed = random.below(40) == 0;
    match random.below(25) {
        0..8 => Completion::Update {
            conn,
            addr,
            len,
            acked,
            peer_closed,
        },
        8..20 => Completion::Placed {
            conn,
            addr,
            len,
            acked,
            peer_closed,
        },
        20 => Completion::Granted {
            conn,
            grant: random.below(5) as u16,
            consumed: random.near(&[0, 1, 1000, u64::MAX]),
            alone_since: (random.below(2) == 0).then_some(0),
        },
        21 => Completion::Elsewhere {
            conn,
            unread: random.near(&[0, 1, 1000]) as u32,
            received: random.near(&[0, 1000, u64::MAX]),
            acked,
            peer_closed,
        },
        22 => Completion::SendBuffer { conn, bytes: len },
        23 => Completion::Local {
            token: acked,
            local: "127.0.0.1:1".parse().unwrap(),
        },
        _ => match random.below(6) {
            0 => Completion::Released { conn },
            1 => Completion::Failed { conn, errno: 104 },
            2 => Completion::Shut { conn },
            4 => Completion::Departed { conn, total: acked },
            3 => Completion::Syn {
                token: acked,
                conn,
                room: len as u16,
            },
            _ => Completion::NotGranted { conn, errno: 11 },
        },
    }
}

fn run(seed: u64) -> bool {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let sizes = Sizes {
        send_len: 1 << 20,
        receive_len: 1 << 20,
        ..Sizes::default()
    };
    let engine = FakeEngine::start_with(Some(sizes));
    let session = engine.attach();
    let listener = session.listen("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    listener.want();
    let sockets = (0..2)
        .map(|_| {
            let conn = engine.host(|host| host.hand(1));
            (conn, listener.accept_offloaded().unwrap())
        })
        .collect();
    let memory = (0..3).map(|_| session.register(8000).unwrap()).collect();
    let mut program = Program {
        session,
        sockets,
        views: Vec::new(),
        rooms: Vec::new(),
        memory,
    };
    // What the engine was asked for is where lies are best.
    let mut places = vec![0, 4096, (1 << 20) - 1, 1 << 20, u64::MAX];
    for _ in 0..WORDS {
        let at = random.below(2) as usize;
        program.act(&mut random);
        let conn = program.sockets[at].0;
        if !program.session.is_attached() {
            break;
        }
        engine.host(|host| {
            for submission in host.side_submissions() {
                if let Submission::Post { addr, len, .. } = submission {
                    places.extend([addr, addr + u64::from(len)]);
                }
            }
            let completion = say(&mut random, conn, &places);
            host.post(completion);
        });
        program.act(&mut random);
    }
    let lives = program.session.is_attached();
    // Everything goes in some order, and what comes back can be registered again.
    program.views.clear();
    program.rooms.clear();
    program.sockets.clear();
    program.session.pump();
    for memory in program.memory {
        match memory.unregister() {
            Ok(()) | Err((_, Errno::BUSY)) => {}
            Err((_, errno)) => panic!("{errno}"),
        }
    }
    lives
}

#[test]
fn whatever_an_engine_says_the_program_goes_on() {
    let alive = (1..=ENGINES).filter(|seed| run(*seed)).count();
    // Most are found out; some say nothing that is wrong enough.
    assert!(alive < ENGINES as usize, "no lie was found");
}
