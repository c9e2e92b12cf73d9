//! A region whose other side writes whatever it likes, driven by a script of bytes: run by the test
//! `scribble` with seeded random scripts and the committed corpus, and by the fuzz target of the
//! same name with scripts that it makes up.

use queue_pair::armed::{Armed, Sleepers, Word};
use queue_pair::{
    CONNECT_BLOCK_LEN, Completion, ConnectBlock, EngineSide, HostSide, Layout, Sizes, Submission,
    Violation,
};
use queue_pair::{bells, region};
use rustix::fd::OwnedFd;
use rustix::io::pwrite;

const ENTRIES: u32 = 8;
const AREA: u64 = 8192;

/// The places of the words that the two sides share, as `layout` documents them.
const WORDS: [u64; 8] = [0, 8, 1024, 1152, 1280, 1408, 1536, 1664];

/// Runs a script: scribbles as it says, and lets honest sides work in between. Whatever it says,
/// nothing panics, and nobody works without end.
pub fn scribble(script: &[u8]) {
    let mut script = Script(script);
    while !script.is_over() {
        // A violation ends the session, and the next one begins with the rest of the script.
        let _ = session(&mut script);
    }
}

/// A session, until the script is over or a side finds a violation.
pub fn session(script: &mut Script<'_>) -> Result<(), Violation> {
    let sizes = Sizes {
        submission_entries: ENTRIES,
        completion_entries: ENTRIES,
        positions: 8,
        send_len: AREA,
        receive_len: AREA,
    };
    let layout = Layout::new(sizes).expect("possible sizes");
    let (fd, mut engine) = region::create(&layout).expect("a memfd");
    let mut host = region::attach(&fd).expect("an honest header");
    while let Some(step) = script.byte() {
        match step % 12 {
            0 => word(&fd, WORDS[usize::from(script.pick(8))], script),
            1 => counter(&fd, WORDS[2 + usize::from(script.pick(4))], script),
            2..=4 => {
                let ring = if step % 2 == 0 {
                    layout.submission_at
                } else {
                    layout.completion_at
                };
                let slot = u64::from(script.pick(ENTRIES as u8));
                entry(&fd, ring + 32 * slot, script);
            }
            5 => anywhere(&fd, layout.total_len, script),
            6 | 7 => engine_turn(&mut engine)?,
            8 => host_turn(&mut host)?,
            9 => submit(&mut host, script)?,
            10 => sleep(
                &engine.armed,
                &host.sleepers,
                &host.armed,
                &engine.sleepers,
                script,
            ),
            // Whatever the header says by now, a host that attaches refuses it or finds all inside.
            _ => {
                if let Ok(mut late) = region::attach(&fd) {
                    host_turn(&mut late)?;
                }
            }
        }
    }
    Ok(())
}

/// What an engine does in a turn, with every submission there is.
pub fn engine_turn(engine: &mut EngineSide) -> Result<(), Violation> {
    let mut taken = 0;
    let mut frame = [0; 1448];
    while let Some(submission) = engine.submissions.take()? {
        taken += 1;
        assert!(taken <= ENTRIES, "more than a ring of work in one turn");
        match submission {
            Submission::Send {
                conn, addr, len, ..
            } => {
                let payload = engine.send.slice(addr, len as usize)?;
                assert!(payload.len() as u64 <= AREA);
                for part in payload.chunks(frame.len()) {
                    queue_pair::copy_out_sum(part, &mut frame[..part.len()]);
                }
                let (acked, peer_closed) = (len.into(), false);
                let update = Completion::Update {
                    conn,
                    addr: 0,
                    len: 0,
                    acked,
                    peer_closed,
                };
                engine.completions.post(&update)?;
            }
            Submission::Connect { token, addr } => {
                let mut block = [0; CONNECT_BLOCK_LEN];
                engine.send.copy_out(addr, &mut block)?;
                let local = ConnectBlock::decode(&block)?.local;
                let conn = queue_pair::ConnRef::from_word(token);
                engine.completions.post(&Completion::Opened {
                    token,
                    conn,
                    grant: 0,
                    local,
                })?;
            }
            Submission::Close { conn, .. } => {
                engine.completions.post(&Completion::Released { conn })?;
            }
            _ => {}
        }
    }
    engine.submissions.release();
    engine.completions.publish();
    assert!(engine.completions.room()? <= ENTRIES);
    Ok(())
}

/// What a host does when it looks for completions: it does not believe the engine either.
pub fn host_turn(host: &mut HostSide) -> Result<(), Violation> {
    let mut taken = 0;
    while let Some(completion) = host.completions.take()? {
        taken += 1;
        assert!(taken <= ENTRIES, "more than a ring of work in one turn");
        if let Completion::Update { addr, len, .. } = completion {
            let mut data = vec![0; host.receive.slice(addr, len as usize)?.len()];
            host.receive.copy_out(addr, &mut data)?;
        }
    }
    host.completions.release();
    Ok(())
}

/// An honest submission, so that the scribbling meets a ring in use.
fn submit(host: &mut HostSide, script: &mut Script<'_>) -> Result<(), Violation> {
    let conn = queue_pair::ConnRef {
        index: 1,
        generation: 1,
    };
    let len = u32::from(script.pick(255)) * 16;
    let send = Submission::Send {
        conn,
        addr: 0,
        len,
        more: false,
        consumed: 0,
    };
    host.submissions.post(&send)?;
    host.submissions.publish();
    Ok(())
}

/// Both sides arm, disarm and take.
fn sleep<W: Word>(
    engine: &Armed<W>,
    engine_sleepers: &Sleepers<W>,
    host: &Armed<W>,
    host_sleepers: &Sleepers<W>,
    script: &mut Script<'_>,
) {
    let sleeper = u32::from(script.pick(64));
    engine.arm(0);
    host.arm(sleeper);
    let _ = engine_sleepers.take(bells::ALL);
    let _ = host_sleepers.take(bells::ALL);
    engine.disarm(0);
    host.disarm(sleeper);
}

/// An index or an armed word becomes anything.
fn word(fd: &OwnedFd, at: u64, script: &mut Script<'_>) {
    write(fd, at, &script.array::<8>());
}

/// An index becomes something that it could nearly be.
fn counter(fd: &OwnedFd, at: u64, script: &mut Script<'_>) {
    write(fd, at, &u32::from(script.pick(12)).to_ne_bytes());
}

/// More than there are kinds of submissions or of completions.
const KINDS: u8 = 20;

/// An entry that is likely to be nearly valid: a low kind, and each word small, huge or random.
fn entry(fd: &OwnedFd, at: u64, script: &mut Script<'_>) {
    let mut words = [0u64; 4];
    for word in &mut words {
        *word = match script.pick(4) {
            0 => 0,
            1 => u64::from(script.pick(255)),
            2 => AREA - u64::from(script.pick(255)),
            _ => u64::from_ne_bytes(script.array()),
        };
    }
    words[0] = words[0] & !0xff | u64::from(script.pick(KINDS));
    write(fd, at, words.map(u64::to_ne_bytes).as_flattened());
}

fn anywhere(fd: &OwnedFd, len: u64, script: &mut Script<'_>) {
    let at = u64::from(u16::from_ne_bytes(script.array())) % (len - 16);
    write(fd, at, &script.array::<16>());
}

fn write(fd: &OwnedFd, at: u64, bytes: &[u8]) {
    pwrite(fd, bytes, at).expect("inside the region");
}

/// The bytes that decide everything; zero when they are over.
pub struct Script<'a>(pub &'a [u8]);

impl Script<'_> {
    fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn pick(&mut self, below: u8) -> u8 {
        self.byte().unwrap_or(0) % below
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        core::array::from_fn(|_| self.byte().unwrap_or(0))
    }
}
