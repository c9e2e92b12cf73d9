//! The queue pair by itself: two threads of this process, each on a core, with a region between them as a
//! program and its engine have; and what registering memory takes with an engine.

use super::median::median;
use anyhow::{Context as _, Result, bail, ensure};
use native::{Context, Mode};
use queue_pair::doorbell::{self, Bell, Ringer};
use queue_pair::{Completion, ConnRef, EngineSide, HostSide, Layout, Sizes, Submission, region};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Measure the queue pair
#[derive(clap::Args)]
pub struct Args {
    /// Bytes of a transfer
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=64 << 10))]
    size: u32,
    /// Sleep until the doorbell rings, instead of looking all the time
    #[arg(long)]
    wait: bool,
    /// For how long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
}

/// The cores of the two ends.
const CORES: [usize; 2] = [0, 1];
/// Entries that are posted and then taken, and how often, where posting is timed.
const POSTS: u32 = 64;
const POSTINGS: usize = 2_000;
/// How often memory is registered.
const REGISTERED: usize = 200;
/// Transfers at once where bandwidth is measured.
const PIPELINE: u64 = 16;
/// How long an end sleeps at most before it looks whether it is over.
const SLEEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Looks of who polls between two looks at the clock.
const LOOKS: u64 = 100_000;
const CONN: ConnRef = ConnRef {
    index: 1,
    generation: 1,
};

/// Measures.
pub fn run(args: &Args) -> Result<Value> {
    let register = registering(args.size as usize)?;
    let post = posting(args.size)?;
    let (engine, host) = sides()?;
    let (to_engine, at_engine) = doorbell::pair()?;
    let (to_host, at_host) = doorbell::pair()?;
    let over = AtomicBool::new(false);
    let far = Far {
        side: engine,
        bell: at_engine,
        ringer: to_host,
    };
    let mut near = Near {
        side: host,
        bell: at_host,
        ringer: to_engine,
        waits: args.wait,
        bytes: vec![7; args.size as usize],
    };
    let half = Duration::from_secs(args.seconds) / 2;
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            ::lab::cores::stay_on(CORES[1])?;
            far.serve(args.wait, &over)
        });
        let found = near.measure(half);
        over.store(true, Ordering::Relaxed);
        match served.join() {
            Ok(served) => served.context("the far end")?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        let (one_way, rate) = found?;
        Ok(json!({
            "one_way_ns": one_way,
            "bytes_per_second": rate,
            "post_ns": post,
            "register_ns": register,
        }))
    })
}

fn sides() -> Result<(EngineSide, HostSide)> {
    let sizes = Sizes {
        send_len: 4 << 20,
        receive_len: 4 << 20,
        ..Sizes::default()
    };
    Ok(region::on_heap(&Layout::new(sizes)?)?)
}

/// A transfer. With `more` it is acknowledged only; otherwise it comes back.
fn transfer(addr: u64, len: u32, more: bool) -> Submission {
    Submission::Send {
        conn: CONN,
        addr,
        len,
        more,
        consumed: 0,
    }
}

/// What registering takes, in nanoseconds: a piece of the memory that this process shares with its engine.
fn registering(size: usize) -> Result<f64> {
    let context = Context::attach("default", "subject", Mode::Engine)?;
    let mut times = Vec::new();
    for _ in 0..REGISTERED {
        let began = Instant::now();
        let memory = context.register(size)?;
        times.push(began.elapsed().as_nanos() as f64);
        memory.unregister().map_err(|(_, errno)| errno)?;
    }
    Ok(median(&mut times))
}

/// What posting takes, in nanoseconds: with publishing, and with the look whether the other side sleeps.
pub fn posting(size: u32) -> Result<f64> {
    let (mut engine, mut host) = sides()?;
    let mut times = Vec::new();
    for _ in 0..POSTINGS {
        let began = Instant::now();
        for _ in 0..POSTS {
            ensure!(host.submissions.post(&transfer(0, size, false))?, "full");
            host.submissions.publish();
            ensure!(
                host.sleepers.take(queue_pair::bells::ALL) == 0,
                "nobody sleeps here"
            );
        }
        times.push(began.elapsed().as_nanos() as f64 / f64::from(POSTS));
        while engine.submissions.take()?.is_some() {}
        engine.submissions.release();
    }
    Ok(median(&mut times))
}

/// The end in the engine's place.
struct Far {
    side: EngineSide,
    bell: Bell,
    ringer: Ringer,
}

impl Far {
    /// Answers transfers until it is over.
    fn serve(mut self, waits: bool, over: &AtomicBool) -> Result<()> {
        let mut bytes = vec![0; 64 << 10];
        let mut acked = 0;
        loop {
            let Some(submission) = self.side.submissions.take()? else {
                if over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if waits {
                    self.side.armed.arm(0);
                    if self.side.submissions.is_empty()? {
                        sleep(&self.bell)?;
                    }
                    self.side.armed.disarm(0);
                } else {
                    std::hint::spin_loop();
                }
                continue;
            };
            let Submission::Send {
                addr, len, more, ..
            } = submission
            else {
                bail!("something else than a transfer");
            };
            let part = &mut bytes[..len as usize];
            self.side.send.copy_out(addr, part)?;
            self.side.submissions.release();
            acked += u64::from(len);
            if !more {
                self.side.receive.copy_in(0, part)?;
            }
            let answer = Completion::Update {
                conn: CONN,
                addr: 0,
                len: if more { 0 } else { len },
                acked,
                peer_closed: false,
            };
            ensure!(self.side.completions.post(&answer)?, "full");
            self.side.completions.publish();
            if self.side.sleepers.take(queue_pair::bells::ALL) != 0 {
                self.ringer.ring();
            }
        }
    }
}

/// The end in the program's place.
struct Near {
    side: HostSide,
    bell: Bell,
    ringer: Ringer,
    waits: bool,
    bytes: Vec<u8>,
}

impl Near {
    /// Nanoseconds one way, and bytes a second, each measured for so long.
    fn measure(&mut self, each: Duration) -> Result<(f64, f64)> {
        ::lab::cores::stay_on(CORES[0])?;
        let (mut times, start) = (Vec::new(), Instant::now());
        while start.elapsed() < each {
            let began = Instant::now();
            self.send(0, false)?;
            let (_, len) = self.answer()?;
            self.side
                .receive
                .copy_out(0, &mut self.bytes[..len as usize])?;
            times.push(began.elapsed().as_nanos() as f64 / 2.0);
        }
        ensure!(!times.is_empty(), "no time passed for a single transfer");
        let size = self.bytes.len() as u64;
        // What was acknowledged counts from here.
        let before = times.len() as u64 * size;
        let (mut posted, mut acked, start) = (0, 0, Instant::now());
        while start.elapsed() < each {
            while posted - acked < PIPELINE * size {
                self.send(posted % (PIPELINE * size), true)?;
                posted += size;
            }
            acked = self.answer()?.0 - before;
        }
        let rate = acked as f64 / start.elapsed().as_secs_f64();
        while acked < posted {
            acked = self.answer()?.0 - before;
        }
        Ok((median(&mut times), rate))
    }

    fn send(&mut self, addr: u64, more: bool) -> Result<()> {
        self.side.send.copy_in(addr, &self.bytes)?;
        let submission = transfer(addr, self.bytes.len() as u32, more);
        ensure!(self.side.submissions.post(&submission)?, "full");
        self.side.submissions.publish();
        if self.side.sleepers.take(queue_pair::bells::ALL) != 0 {
            self.ringer.ring();
        }
        Ok(())
    }

    /// What has been acknowledged in all, and how much has come.
    fn answer(&mut self) -> Result<(u64, u32)> {
        let (mut looks, mut began) = (0_u64, None);
        loop {
            if let Some(completion) = self.side.completions.take()? {
                self.side.completions.release();
                let Completion::Update { acked, len, .. } = completion else {
                    bail!("something else than an answer");
                };
                return Ok((acked, len));
            }
            looks += 1;
            // The clock is looked at where nothing is lost by it.
            if self.waits || looks % LOOKS == 0 {
                let began = *began.get_or_insert_with(Instant::now);
                ensure!(began.elapsed() < LIMIT, "no answer for {LIMIT:?}");
            }
            if !self.waits {
                std::hint::spin_loop();
                continue;
            }
            self.side.armed.arm(0);
            if self.side.completions.is_empty()? {
                sleep(&self.bell)?;
            }
            self.side.armed.disarm(0);
        }
    }
}

/// Sleeps until the bell rings, or for a while.
fn sleep(bell: &Bell) -> Result<()> {
    let mut ready = [PollFd::new(bell, PollFlags::IN)];
    match poll(&mut ready, Some(&SLEEP)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => {}
        Ok(_) => {
            bell.drain();
        }
        Err(errno) => return Err(errno).context("poll"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Far, Near, posting, sides};
    use queue_pair::doorbell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn bytes_come_back_as_they_were_sent_polling_and_by_doorbells() {
        for waits in [false, true] {
            let (engine, host) = sides().unwrap();
            let (to_engine, at_engine) = doorbell::pair().unwrap();
            let (to_host, at_host) = doorbell::pair().unwrap();
            let far = Far {
                side: engine,
                bell: at_engine,
                ringer: to_host,
            };
            let mut near = Near {
                side: host,
                bell: at_host,
                ringer: to_engine,
                waits,
                bytes: (0..100).collect(),
            };
            let over = AtomicBool::new(false);
            let mut back = [0; 100];
            // Nothing is asserted before the far end is told that it is over.
            let answers = std::thread::scope(|scope| {
                let served = scope.spawn(|| far.serve(waits, &over));
                let first = near.send(0, false).and_then(|()| near.answer());
                let copied = near.side.receive.copy_out(0, &mut back);
                let second = near.send(0, true).and_then(|()| near.answer());
                over.store(true, Ordering::Relaxed);
                served.join().unwrap().unwrap();
                copied.unwrap();
                [first.unwrap(), second.unwrap()]
            });
            assert_eq!(answers, [(100, 100), (200, 0)]);
            assert_eq!(back.to_vec(), near.bytes);
        }
    }

    #[test]
    fn what_is_measured_is_more_than_nothing() {
        assert!(posting(4_096).unwrap() > 0.0);
        assert!(super::SLEEP.tv_nsec < Duration::from_secs(1).as_nanos() as i64);
    }
}
