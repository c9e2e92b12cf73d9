//! What leaves in a turn: as many emissions as there is time for. The call that makes them leave counts: on a
//! device without a ring that the hardware reads, the kernel sends in it, frame by frame, and on a veth it
//! does the receiving of the peer, too, which takes many times as long as making the frame did. So what was
//! made leaves in portions, and the rest is for the next turn.

use netdev::Device;

use super::Worker;
use super::room::{Room, STEP, Until};
use super::transmit::Sink;
use crate::network::Network;
use crate::stats::Drop;

/// Emissions in a turn.
const BUDGET: usize = 256;
/// Emissions after which they leave, and others are made only if there is time: at most, and at least. The
/// kernel's own call takes as many as at most by default.
const MOST: usize = 32;
const LEAST: usize = 8;
/// How long a call that makes them leave may take, in nanoseconds.
const CALL_NS: u64 = 50_000;
/// An emission that leaves in less, in nanoseconds, costs nothing beside what making it did: the rest of the
/// turn's may leave at once, by one call.
const CHEAP_NS: u64 = 300;

/// How many emissions leave by one call, by how long the last ones took.
#[derive(Debug)]
pub(super) struct Portion(usize);

impl Default for Portion {
    fn default() -> Self {
        Self(MOST)
    }
}

impl Portion {
    /// Follows a call that took so many nanoseconds for so many emissions; whether that is worth to be bounded.
    fn follow(&mut self, made: usize, took: u64) -> bool {
        let each = took / made.max(1) as u64;
        // What few take is the call itself, and whom it wakes.
        if made >= LEAST || took >= CALL_NS {
            let fits = CALL_NS.checked_div(each).unwrap_or(u64::MAX);
            self.0 = usize::try_from(fits).map_or(MOST, |fits| fits.clamp(LEAST, MOST));
        }
        each >= CHEAP_NS
    }
}

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
    /// Its time.
    until: Until,
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
            until: Until::sending(self.turn_clock, self.so_far),
            begun: false,
            more: false,
            sent: 0,
            made: 0,
            is_dear: true,
        };
        if self.nics.any_blocked() {
            self.try_large_again();
        }
        self.transmit_released(&mut sending);
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
        self.let_leave(&mut sending);
        if self.captures.is_on() {
            self.captures.flush();
            self.return_captures();
        }
        found || sending.more || sending.sent != 0 || self.nics.go_on()
    }

    /// Connections whose large sends found no room try again.
    fn try_large_again(&mut self) {
        for nic in self.nics.ids() {
            let blocked = &mut self.nics[nic].blocked;
            for _ in 0..blocked.again() {
                if let Some(id) = blocked.take_next() {
                    self.stack.payload_is_there(id);
                }
            }
        }
    }

    /// Frames leave whose next hop was found: they have waited for longer than everything else. For those that find no
    /// room in the device it is waited, as for everything.
    fn transmit_released(&mut self, sending: &mut Sending) {
        while let Some((nic, bytes)) = self.held.next_released() {
            let looks = sending.made == 0 || sending.sent.is_multiple_of(STEP);
            let is_over = looks && sending.until.is_over();
            if sending.sent != 0 && (is_over || sending.sent >= BUDGET) {
                sending.more = true;
                return;
            }
            if self.nics.is_dead(nic) {
                self.counters.drop(Drop::LinkDown);
                self.held.pop_released();
                continue;
            }
            let alone = self.nics.is_one();
            let device = &mut self.nics[nic].device;
            let frame = match device.frame() {
                Some(frame) => frame,
                None if alone => return,
                // Others may leave by another.
                None => {
                    self.counters.drop(Drop::LinkFull);
                    self.held.pop_released();
                    continue;
                }
            };
            match frame.get_mut(..bytes.len()) {
                Some(frame) => {
                    frame.copy_from_slice(bytes);
                    device.submit(bytes.len(), None);
                    self.counters.sent += 1;
                }
                None => self.counters.drop(Drop::Unsendable),
            }
            self.held.pop_released();
            sending.sent += 1;
            sending.made += 1;
            if sending.is_dear && sending.made >= self.portion.0 {
                self.let_leave(sending);
            }
        }
    }

    /// As many emissions as a turn has left, or as many as there is time for; some in any turn.
    fn transmit_for_a_while(&mut self, sending: &mut Sending) {
        while !sending.begun || sending.sent < BUDGET && !sending.until.is_over() {
            sending.begun = true;
            let (step, is_whole) = self.transmit_once(sending.is_dear);
            sending.sent += step;
            sending.made += step;
            sending.more |= is_whole;
            if sending.is_dear && sending.made >= self.portion.0 {
                self.let_leave(sending);
            }
            if !is_whole {
                break;
            }
        }
    }

    /// What was made leaves.
    fn let_leave(&mut self, sending: &mut Sending) {
        if sending.made == 0 {
            return;
        }
        self.core_time.count();
        let clock = self.common.clock.again();
        self.nics.flush();
        let took = clock.now().as_nanos();
        sending.is_dear = self.portion.follow(sending.made, took);
        sending.made = 0;
        if self.trace.is_on() {
            self.trace.handed();
        }
        if let Some(spent) = self.core_time.count() {
            self.counters.flush_core_times.record(spent);
        }
    }

    /// Sends what there is for one step: how many emissions, and whether it was all that a step sends.
    fn transmit_once(&mut self, is_dear: bool) -> (usize, bool) {
        let portion = if is_dear { self.portion.0 } else { MOST };
        let budget = self.stride.0.min(portion);
        let mut sink = Sink {
            nics: &mut self.nics,
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
            asked: false,
        };
        let sent = self.stack.poll_transmit(self.now, &mut sink, budget);
        self.stride.follow(sent, &sink.room);
        (sent, sent == budget || sink.room.is_used_up())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_is_what_leaves_in_time() {
        let mut portion = Portion::default();
        let mut follow = |made, each: u64| {
            let is_dear = portion.follow(made, made as u64 * each);
            (portion.0, is_dear)
        };
        assert_eq!(follow(MOST, 1_000), (MOST, true));
        assert_eq!(follow(MOST, 5_000), (10, true));
        assert_eq!(follow(10, 20_000), (LEAST, true));
        // Few say nothing, unless they take as long as many may.
        assert_eq!(follow(1, 4_000), (LEAST, true));
        assert_eq!(follow(LEAST, 2_000), (25, true));
        assert_eq!(follow(2, 30_000), (LEAST, true));
        assert_eq!(follow(LEAST, 100), (MOST, false));
        assert_eq!(follow(MOST, 0), (MOST, false));
    }
}
