//! What leaves in a turn: as many emissions as there is time for. The call that makes them leave counts: on a
//! device without a ring that the hardware reads, the kernel sends in it, frame by frame, and on a veth it
//! does the receiving of the peer, too, which takes many times as long as making the frame did. So what was
//! made leaves in portions, and the rest is for the next turn.

use netdev::Device;

use super::Worker;
use super::room::{Room, STEP, is_over};
use super::transmit::Sink;
use crate::clock::Clock;
use crate::network::Network;

/// Emissions in a turn.
const BUDGET: usize = 256;
/// Emissions after which they leave, and others are made only if there is time. The kernel's own call takes as
/// many by default.
const PORTION: usize = 32;
/// A portion that left in less, in nanoseconds, costs nothing beside what making it did: the rest of the
/// turn's may leave at once, by one call.
const CHEAP_NS: u64 = 10_000;

/// How many emissions the next step offers room for, by what the last ones weighed.
///
/// The [room](Room) holds a step to its weight whatever is sent. But who is refused for want of room keeps
/// its place before all others, and who has used up a number of emissions goes behind them: so the number
/// follows, that many large sends are shared as fairly as small ones.
#[derive(Debug)]
pub(super) struct Stride(usize);

impl Default for Stride {
    fn default() -> Self {
        Self(STEP)
    }
}

impl Stride {
    /// Follows a step in which `sent` emissions left `room`.
    fn follow(&mut self, sent: usize, room: &Room) {
        if room.is_used_up() {
            self.0 = sent.max(1);
        } else if sent == self.0 && room.0 >= STEP / 2 {
            self.0 = (2 * self.0).min(STEP);
        }
    }
}

/// What a turn has sent.
struct Sending {
    /// Began with it.
    clock: Clock,
    /// A step has been made.
    begun: bool,
    /// A step has ended because it was long enough: there may be more to send.
    more: bool,
    /// Emissions.
    sent: usize,
    /// Those of them that may not have left yet.
    made: usize,
    /// The device takes its time for a portion, as far as is known.
    is_dear: bool,
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Sends what is ready, as much as a turn does; true if there was anything.
    pub(super) fn transmit(&mut self) -> bool {
        self.note_flows();
        self.paths.begin_turn();
        let mut sending = Sending {
            clock: self.common.clock.again(),
            begun: false,
            more: false,
            sent: 0,
            made: 0,
            is_dear: true,
        };
        self.transmit_for_a_while(&mut sending);
        // What follows may be left to the next turn: there has to be one.
        let mut found = false;
        // The first segments on a route that carries less have been refused until now.
        while !self.narrow.is_empty() {
            found = true;
            for (id, mtu) in self.narrow.drain(..) {
                self.stack.limit_path_mtu(self.now, id, mtu);
            }
            self.transmit_for_a_while(&mut sending);
        }
        while !self.findings.is_empty() && self.see_to_files() {
            found = true;
            self.transmit_for_a_while(&mut sending);
        }
        if !self.leaving.is_empty() {
            self.note_departures();
        }
        if sending.made != 0 {
            self.let_leave();
        }
        if self.captures.is_on() {
            self.captures.flush();
            self.return_captures();
        }
        found || sending.more || sending.sent != 0
    }

    /// As many emissions as a turn has left, or as many as there is time for; some in any turn.
    fn transmit_for_a_while(&mut self, sending: &mut Sending) {
        while !sending.begun || sending.sent < BUDGET && !is_over(sending.clock) {
            sending.begun = true;
            let (step, is_whole) = self.transmit_once();
            sending.sent += step;
            sending.made += step;
            sending.more |= is_whole;
            if sending.is_dear && sending.made >= PORTION {
                let began = sending.clock.now();
                self.let_leave();
                let took = sending.clock.now().saturating_duration_since(began);
                sending.is_dear = took.as_nanos() as u64 >= CHEAP_NS;
                sending.made = 0;
            }
            if !is_whole {
                break;
            }
        }
    }

    /// What was made leaves.
    fn let_leave(&mut self) {
        self.core_time.count();
        self.device.flush();
        if self.trace.is_on() {
            self.trace.handed();
        }
        if let Some(spent) = self.core_time.count() {
            self.counters.flush_core_times.record(spent);
        }
    }

    /// Sends what there is for one step: how many emissions, and whether it was all that a step sends.
    fn transmit_once(&mut self) -> (usize, bool) {
        let budget = self.stride.0;
        let mut sink = Sink {
            device: &mut self.device,
            local: self.local.as_mut(),
            network: &mut self.network,
            connections: &mut self.connections,
            memory: &mut self.memory,
            paths: &mut self.paths,
            held: &mut self.held,
            counters: &mut self.counters,
            scratch: &self.scratch,
            captures: &mut self.captures,
            trace: &mut self.trace,
            narrow: &mut self.narrow,
            leaving: &mut self.leaving,
            netfilter: (!self.netfilter.cuts.is_empty()).then_some(&self.netfilter),
            hop_limit: self.config.tcp.hop_limit,
            findings: &mut self.findings,
            room: Room(STEP),
        };
        let sent = self.stack.poll_transmit(self.now, &mut sink, budget);
        self.stride.follow(sent, &sink.room);
        (sent, sent == budget || sink.room.is_used_up())
    }
}
