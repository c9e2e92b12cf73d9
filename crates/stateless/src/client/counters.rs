//! What the client counts.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// Counts since the client began.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Every count with its stable name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name)),+].into_iter()
            }

            /// What was added since `before`.
            #[must_use]
            pub fn since(&self, before: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(before.$name)),+ }
            }
        }
    };
}

counters! {
    /// Connections begun: SYNs sent for the first time.
    syns,
    /// SYNs sent again, to begin or to go on after a loss.
    syns_again,
    /// Connections opened: the first SYN-ACK of each.
    syn_acks,
    /// Further SYN-ACKs.
    syn_acks_again,
    /// Requests sent for the first time.
    requests,
    /// Requests sent again.
    requests_again,
    /// Responses that came whole.
    responses,
    /// Responses, or parts of them, that came again.
    responses_again,
    /// Responses of status 100 to 199.
    status_1xx,
    /// Responses of status 200 to 299.
    status_2xx,
    /// Responses of status 300 to 399.
    status_3xx,
    /// Responses of status 400 to 499.
    status_4xx,
    /// Responses of any other status.
    status_5xx,
    /// Connections that ended as they should.
    closed,
    /// Connections that the server closed although more requests were to come; others took over.
    closed_early,
    /// Requests that the server did not answer before it closed their connection.
    unanswered,
    /// Connections that the server reset.
    reset,
    /// Connections that the server refused: a reset answered the SYN.
    refused,
    /// FINs sent.
    fins,
    /// FINs received.
    fins_received,
    /// Resets sent.
    resets,
    /// Segments sent that only acknowledge.
    acknowledgements,
    /// Connections given up: no SYN-ACK came.
    lost_opening,
    /// Connections given up: a response did not come.
    lost_asked,
    /// Connections given up: the server's FIN did not come.
    lost_closing,
    /// Requests given up: the server did not answer within the time-out.
    timed_out,
    /// Requests, and connections on their way to one, that were under way when the wait at the end
    /// was over.
    unfinished,
    /// Segments received for a connection of ours.
    segments_received,
    /// Bytes of payload in them.
    bytes_received,
    /// Bytes of payload sent.
    bytes_sent,
    /// Frames that are no TCP segment, or whose checksum is wrong.
    malformed,
    /// Segments that are not from the server, or not to a source of ours.
    foreign,
    /// Segments whose acknowledgement we cannot have caused: of an earlier connection, or forged.
    stale,
    /// Earlier connections that the server still had where a new one began, and that were reset.
    displaced,
    /// Acknowledgements within a request.
    not_a_state,
    /// Segments behind a gap.
    out_of_order,
    /// Responses that are not HTTP.
    not_http,
    /// Bytes behind the end of a response.
    excess,
    /// Segments left to be sent again because too many responses are in progress at once.
    table_full,
    /// Bodies that are not what they have to be.
    bodies_wrong,
    /// SYN-ACKs without timestamps.
    without_timestamps,
    /// Timestamps that do not echo one of ours.
    timestamps_wrong,
    /// Times when nothing could be sent because the device had no room.
    no_frame,
    /// Times when a connection was due, and as many were outstanding as may be.
    no_room,
}

impl Counters {
    /// Connections given up.
    pub const fn lost(&self) -> u64 {
        self.lost_opening + self.lost_asked + self.lost_closing
    }

    /// Whatever should not be in a test without disturbance: connections that failed, requests
    /// without an answer, responses of status 400 and above, and bodies that are wrong.
    pub const fn errors(&self) -> u64 {
        self.lost()
            + self.reset
            + self.refused
            + self.unanswered
            + self.timed_out
            + self.unfinished
            + self.not_http
            + self.bodies_wrong
            + self.status_4xx
            + self.status_5xx
    }

    /// Whatever had to be tried again, or was given up: each is a frame lost on the way.
    pub const fn losses(&self) -> u64 {
        self.syns_again + self.syn_acks_again + self.requests_again + self.lost()
    }
}
