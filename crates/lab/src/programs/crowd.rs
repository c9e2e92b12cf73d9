//! Two hundred clients at once, each with a connection of its own.

use super::clients::Client;
use super::exchange::{LIMIT, Protocol, SMALL, answer, ask, connect};
use super::place::Place;
use anyhow::Result;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const AT_ONCE: usize = 200;
/// How long they may take together, if they are programs.
const MANY: Duration = Duration::from_secs(240);

/// By the lab itself: all connections are open before the first asks.
pub fn speak(protocol: Protocol, to: SocketAddr) -> Result<String> {
    let mut streams = Vec::new();
    for _ in 0..AT_ONCE {
        streams.push(connect(to)?);
    }
    for stream in &mut streams {
        ask(protocol, stream, SMALL)?;
    }
    let begin = Instant::now();
    let answers = streams.into_iter().map(|stream| {
        // Together they have as long as each would have alone.
        let left = LIMIT.saturating_sub(begin.elapsed());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(10))))?;
        answer(protocol, stream, SMALL)
    });
    all_of(answers)
}

/// By programs.
pub fn run(client: &Client, place: &Place) -> Result<String> {
    std::thread::scope(|scope| {
        let once = || client.once(place, SMALL, MANY);
        // All are begun before the first is waited for.
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(once)).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        all_of(ended)
    })
}

/// "all", or how many went wrong and how the first of them did.
fn all_of(results: impl Iterator<Item = Result<()>>) -> Result<String> {
    let wrong: Vec<_> = results.filter_map(Result::err).collect();
    match wrong.first() {
        None => Ok("all".into()),
        Some(first) => anyhow::bail!("{} fail: {first:#}", wrong.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_those_that_fail_is_told() {
        assert_eq!(all_of([Ok(()), Ok(())].into_iter()).unwrap(), "all");
        let failed = |why: &'static str| Err(anyhow::anyhow!(why));
        let result = all_of([Ok(()), failed("one"), failed("two")].into_iter());
        assert_eq!(result.unwrap_err().to_string(), "2 fail: one");
    }
}
