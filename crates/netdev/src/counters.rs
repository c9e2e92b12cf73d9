//! What a device counts.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// Counts since the device was opened; a device leaves at 0 what it does not know.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Every count with its stable name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name)),+].into_iter()
            }
        }

        impl core::ops::AddAssign for Counters {
            fn add_assign(&mut self, other: Self) {
                $(self.$name = self.$name.wrapping_add(other.$name);)+
            }
        }
    };
}

counters! {
    /// Frames handed to the receiver.
    received_frames,
    /// Bytes in them.
    received_bytes,
    /// Of these, frames that arrived in several buffers and were put together.
    received_multi_buffer,
    /// Dropped: longer than the device puts together, or with scatter-gather switched off.
    receive_dropped_oversize,
    /// Dropped by the kernel: no room in the receive ring.
    receive_dropped_ring_full,
    /// Dropped by the kernel for any other reason (the frame fits no buffer, the device is down).
    receive_dropped_kernel,
    /// How often the kernel found no free buffer in the fill ring; each is a lost frame too.
    receive_fill_ring_empty,
    /// Descriptors in the fill ring that the kernel rejected. Not 0 means a bug here.
    receive_invalid_descriptors,
    /// System calls made to restart reception.
    receive_wakeups,
    /// Frames accepted by [`submit`](crate::Device::submit).
    sent_frames,
    /// Bytes in them.
    sent_bytes,
    /// How often [`frame`](crate::Device::frame) had none.
    send_no_frame,
    /// System calls made to transmit.
    send_wakeups,
    /// Of these, how many ended with the kernel asking to come again.
    send_wakeups_again,
    /// Of these, how many failed for good.
    send_wakeups_failed,
    /// Descriptors that the kernel rejected. Not 0 means a bug here.
    send_invalid_descriptors,
    /// Large sends taken by the kernel.
    large_sends,
    /// Bytes of payload in them.
    large_bytes,
    /// Large sends for which there was no room.
    large_busy,
    /// Large sends that the kernel refused.
    large_refused,
    /// Frames lost on a simulated link because its queue was full.
    link_full,
    /// Frames lost by a fault that was asked for.
    link_lost,
}

impl Counters {
    /// Frames that arrived and were not handed to the receiver, for whatever reason.
    pub const fn receive_dropped(&self) -> u64 {
        self.receive_dropped_oversize
            + self.receive_dropped_ring_full
            + self.receive_dropped_kernel
            + self.receive_fill_ring_empty
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;

    #[test]
    fn names_are_stable_and_sums_are_by_name() {
        let mut sum = Counters {
            sent_frames: 2,
            ..Counters::default()
        };
        sum += Counters {
            sent_frames: 3,
            received_bytes: 7,
            ..Counters::default()
        };
        let by_name: Vec<_> = sum.iter().filter(|(_, count)| *count != 0).collect();
        assert_eq!(by_name, [("received_bytes", 7), ("sent_frames", 5)]);
    }
}
