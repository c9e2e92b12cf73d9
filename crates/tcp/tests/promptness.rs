//! Who sends right after he was sent something had waited for it; who sends long after had not.

mod common;

use std::time::Duration;

use common::*;
use tcp::ConnOptions;

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// Segments with data so far, and those whose sender had waited.
fn counted(b: &Bench) -> (u64, u64) {
    let counters = b.stack.counters();
    (counters.data_segments_in, counters.prompt_segments_in)
}

#[test]
fn a_request_right_after_an_answer_had_waited_for_it() {
    let mut b = Bench::established(plain(), ConnOptions::default());
    let (mut seq, mut ours) = (1, 1);
    for (after, prompt) in [(20, 1), (150, 1), (151, 0), (20_000, 0)] {
        b.send(100);
        b.discard();
        ours += 100;
        let before = counted(&b);
        b.advance(us(after));
        b.discard();
        b.inject(seg(seq, 10).ack(ours));
        seq += 10;
        let now = counted(&b);
        assert_eq!(
            (now.0 - before.0, now.1 - before.1),
            (1, prompt),
            "{after} µs after"
        );
    }
    assert_eq!(counted(&b).0, 4);
}

#[test]
fn acknowledgements_alone_tell_nothing() {
    let mut b = Bench::established(plain(), ConnOptions::default());
    b.send(100);
    b.discard();
    b.inject(seg(1, 0).ack(101));
    assert_eq!(counted(&b), (0, 0));
}

#[test]
fn whether_a_first_request_had_waited_is_not_known() {
    // It follows the SYN-ACK also where the client asks by the clock.
    for after in [30, 50_000] {
        let mut b = Bench::listening(plain(), ConnOptions::default());
        b.inject(b.offer);
        b.discard();
        b.advance(us(after));
        b.inject(seg(1, 0).ack(1));
        b.inject(seg(1, 10).ack(1));
        assert_eq!(counted(&b), (1, 0), "{after} µs after");
    }
}

#[test]
fn what_comes_without_end_had_not_waited() {
    let mut b = Bench::established(plain(), ConnOptions::default());
    b.advance(ms(1));
    for piece in 0..8 {
        b.inject(seg(1 + piece * 1000, 1000).ack(1));
        b.discard();
        b.advance(us(10));
    }
    // Our acknowledgements are no data.
    assert_eq!(counted(&b), (8, 0));
}
