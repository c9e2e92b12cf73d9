//! Opening connections: passive, active, simultaneous.

mod common;

use common::*;
use tcp::ConnOptions;

#[test]
fn passive_open_and_first_data() {
    let mut b = Bench::listening(plain(), ConnOptions::default());
    b.inject(b.offer);
    let syn_ack = b.expect("S. 0:0 ack 1");
    assert_eq!(syn_ack.options.mss, Some(1460));
    assert_eq!(syn_ack.window, 65_535);
    b.quiet();
    // The ACK of the handshake may bring data.
    b.inject(seg(1, 5).ack(1));
    b.conn = b.stack.accept(b.listener.unwrap());
    b.events();
    assert_eq!((b.update.connected, b.update.received), (true, 5));
    b.send(3);
    b.expect("P. 1:4 ack 6");
    b.quiet();
    b.inject(seg(6, 0).ack(4));
    b.quiet();
    assert_eq!(b.update.acked, 3);
}
