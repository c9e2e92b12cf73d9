//! For how much room to send into anybody waits: the engine wakes no thread of this process for less of what the peer
//! has acknowledged ([`queue_pair::room`]).

use queue_pair::room::{Awaits, FURTHEST};

use super::{NEVER, Phase, Socket, State};
use crate::lock::lock;

impl State {
    /// For how much somebody waits, who waits for room or does not: until there is room worth writing into, or so much
    /// is acknowledged as the program wants to be told of.
    pub(super) fn awaits(&self, for_room: bool) -> Awaits {
        let (marked, departed) = self
            .marks
            .as_ref()
            .map_or((NEVER, NEVER), |marks| (marks.acknowledged, marks.departed));
        if !for_room && marked == NEVER && departed == NEVER {
            return Awaits::Nothing;
        }
        // What has left is told of otherwise than by a count of what is acknowledged.
        if departed != NEVER || self.phase != Phase::Open {
            return Awaits::Anything;
        }
        let acknowledged = self.send.acknowledged();
        let room = match (for_room, self.starved.until(), self.is_let_go_from()) {
            (false, ..) => NEVER,
            (true, Some(fed), Some(let_go)) => {
                let writable = self.send.writable_from(self.options.send_buffer());
                writable.max(fed).max(let_go)
            }
            // Whatever comes may bring it.
            (true, ..) => return Awaits::Anything,
        };
        // What is reached was told when it was.
        let mark = Some(marked).filter(|mark| *mark > acknowledged);
        match mark.unwrap_or(NEVER).min(room) {
            NEVER => Awaits::Nothing,
            count => Awaits::Until(count.clamp(acknowledged, acknowledged + FURTHEST)),
        }
    }
}

impl State {
    /// How much has to be acknowledged for it not to be held back, if nothing else leaves: 0 if it is not. The engine
    /// says of what leaves only when it holds back no more, and that is urgent; what is acknowledged has left. `None`:
    /// it was asked to say when something else has left, and says the rest in its own time.
    fn is_let_go_from(&self) -> Option<u64> {
        let Some(low) = self.low().filter(|_| self.is_held_back()) else {
            return Some(0);
        };
        let is_asked = self.marks.as_ref().is_some_and(|marks| marks.asked);
        // Less than half of the bound waits then.
        let from = self
            .send
            .written()
            .saturating_sub(low.saturating_sub(1) / 2);
        (!is_asked).then_some(from)
    }
}

impl Socket {
    /// Says whether the program waits for room to send into, and from then on only what it says counts: while it
    /// does not, nobody is told when there is room again. Look for room after having said that it does.
    /// Such a program waits by a [`Poller`](crate::Poller) before it sleeps otherwise: what it sends with more to
    /// follow leaves with that, or then. One that [waits](Socket::wait) for room says so before, too.
    pub fn waits_for_room(&self, waits: bool) {
        let state = lock(&self.core.state);
        if self.core.room.say(waits) {
            self.core.refresh(&state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::send_pool::Run;

    /// As of a file that is sent in one piece.
    #[test]
    fn who_waits_for_what_is_far_away_looks_on_its_way() {
        let any = "127.0.0.1:0".parse().unwrap();
        let mut state = State::new(Phase::Open, any, any);
        state.send.append_file(u32::MAX, &Arc::new(Run::NONE));
        let last = state.send.writable_from(state.options.send_buffer());
        let mut looks = 0;
        while state.send.acknowledged() < last {
            let Awaits::Until(count) = state.awaits(true) else {
                panic!("it waits for a count");
            };
            assert!(count <= state.send.acknowledged() + FURTHEST);
            state.send.acknowledge(count).unwrap();
            looks += 1;
        }
        assert_eq!(looks, last.div_ceil(FURTHEST));
        assert_eq!(state.send.acknowledged(), last, "and not further");
    }
}
