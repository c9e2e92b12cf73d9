//! What it takes to wake another process on the same core and to wait for it: two of them, which do nothing else, by
//! pipes. A switch of contexts, with the two calls that belong to it.

use super::median::median;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, Read, Write, stdin, stdout};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Measure a switch between two processes
#[derive(clap::Args)]
pub struct Args {
    /// For how long; without it: be the other process
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: Option<u64>,
}

/// Round trips before those that count.
const WARM_UP: usize = 50;

/// Measures; nothing, for the other process. Both stay on the cores that this one was started on.
pub fn run(args: &Args) -> Result<Option<Value>> {
    let Some(seconds) = args.seconds else {
        return answer(stdin().lock(), stdout().lock()).map(|()| None);
    };
    let mut other = Command::new(std::env::current_exe()?)
        .args(["subject", "switch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("the other process")?;
    let pipes = other.stdin.take().zip(other.stdout.take());
    let window = Duration::from_secs(seconds);
    // The other ends with its pipe, whatever comes of it here.
    let found = pipes
        .context("no pipes")
        .and_then(|(to, from)| measure(to, from, window));
    let status = other.wait()?;
    let found = found?;
    ensure!(status.success(), "the other process: {status}");
    Ok(Some(json!({ "switch_ns": found })))
}

/// Half of a round trip, in nanoseconds: there are two switches in one.
fn measure(mut to: impl Write, mut from: impl Read, window: Duration) -> Result<f64> {
    let mut wake = || -> Result<f64> {
        let began = Instant::now();
        to.write_all(&[7])?;
        from.read_exact(&mut [0])?;
        Ok(began.elapsed().as_nanos() as f64 / 2.0)
    };
    for _ in 0..WARM_UP {
        wake()?;
    }
    let (mut times, began) = (vec![wake()?], Instant::now());
    while began.elapsed() < window {
        times.push(wake()?);
    }
    Ok(median(&mut times))
}

/// Gives every byte back at once, to the end.
fn answer(from: impl BufRead, mut to: impl Write) -> Result<()> {
    for byte in from.bytes() {
        to.write_all(&[byte?])?;
        to.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{answer, measure};
    use std::io::BufReader;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn who_answers_ends_with_who_asks() {
        let (near, far) = UnixStream::pair().unwrap();
        let answering = std::thread::spawn(move || answer(BufReader::new(&far), &far));
        assert!(measure(&near, &near, Duration::from_millis(1)).unwrap() > 0.0);
        drop(near);
        answering.join().unwrap().unwrap();
    }

    #[test]
    fn without_an_answer_there_is_no_figure() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        assert!(measure(&near, &near, Duration::ZERO).is_err());
    }
}
