//! What peers are told whose SYN the rules of netfilter reject: what the kernel would tell them.

use arrayvec::ArrayVec;
use netdev::Device;
use tcp::{Instant, Stack};
use wire::icmp::{MAX_UNREACHABLE_LEN, unreachable};
use wire::segment::Segment;

use super::Worker;
use crate::netfilter::rules::Answer;
use crate::network::{Network, NicId};

/// Messages of ICMP in a second, as in the kernel (`net.ipv4.icmp_msgs_per_sec`).
const PER_SECOND: u32 = 1000;
/// Messages that wait until a batch of frames has been received; more are not sent.
const ROOM: usize = 16;

/// Messages that are to be sent.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    second: u64,
    count: u32,
    frames: ArrayVec<(NicId, [u8; MAX_UNREACHABLE_LEN], usize), ROOM>,
}

impl Rejections {
    /// Answers the segment in a frame that came to this interface, unless there were too many in this second.
    pub fn answer(
        &mut self,
        now: Instant,
        answer: Answer,
        (frame, segment, nic): (&[u8], &Segment<'_>, NicId),
        hop_limit: u8,
        stack: &mut Stack,
    ) {
        let code = match answer {
            Answer::Reset => return stack.refuse(now, segment),
            Answer::Unreachable(code) => code,
        };
        let second = now.as_nanos() / 1_000_000_000;
        if self.second != second {
            (self.second, self.count) = (second, 0);
        }
        if self.count == PER_SECOND || self.frames.is_full() {
            return;
        }
        self.count += 1;
        let mut message = [0; MAX_UNREACHABLE_LEN];
        if let Some(len) = unreachable(frame, code, hop_limit, &mut message) {
            self.frames.push((nic, message, len));
        }
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// Sends what was answered; what the device has no room for is lost, as any packet may be.
    pub(super) fn send_rejections(&mut self) {
        if self.rejections.frames.is_empty() {
            return;
        }
        for (nic, message, len) in self.rejections.frames.drain(..) {
            let device = &mut self.nics[nic].device;
            let room = device.frame().and_then(|frame| frame.get_mut(..len));
            if let Some(room) = room {
                room.copy_from_slice(&message[..len]);
                device.submit(len, None);
                self.counters.sent += 1;
            }
        }
        self.nics.flush();
    }
}
