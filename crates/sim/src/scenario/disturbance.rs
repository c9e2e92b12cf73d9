//! What befalls connections on their way: options that change, links that go dead for a while,
//! routes that become longer, shorter or narrower, SYNs from nowhere, memory that is taken back, applications
//! that give up, whole stacks that are replaced.

use core::net::IpAddr;
use core::time::Duration;

use tcp::{Algorithm, Config, ConnOption, Instant, Request, Stack};
use wire::flow::FlowKey;
use wire::seq::SeqNumber;
use wire::tcp::Flags;

use crate::ids::SocketId;
use crate::pair::{Pair, forge};
use crate::rng::{Chance, Rng};

/// How many disturbances there are in a run, at most, so that it can end.
const LIMIT: u32 = 100;

/// How long the link is dead, at most.
const OUTAGE: Duration = Duration::from_secs(3);

/// How long a way is after a change of routes, at most.
const LONGEST_WAY: Duration = Duration::from_millis(200);

/// How many SYNs come from nowhere at once, at most.
const FLOOD: u64 = 20;

/// What befalls the connections of a run.
pub(super) struct Disturbances {
    /// When the next one is due.
    due: Option<Instant>,
    /// How much time there is between two, at most.
    pause: Duration,
    left: u32,
    aborts: Chance,
    /// Whether SYNs come from nowhere.
    pub(super) floods: bool,
    /// With what whole stacks are replaced; never if `None`. Cookies that are on their way would not
    /// survive it.
    pub(super) stacks: Option<[Config; 2]>,
    /// How long the link is dead, and how likely it was to lose a frame before, in each direction.
    outage: Option<(Instant, [Chance; 2])>,
    rng: Rng,
}

impl Disturbances {
    pub(super) fn new(
        begin: Instant,
        pause: Option<Duration>,
        aborts: Chance,
        mut rng: Rng,
    ) -> Disturbances {
        Disturbances {
            due: pause.map(|pause| begin + rng.span(pause)),
            pause: pause.unwrap_or_default(),
            left: LIMIT,
            aborts,
            floods: false,
            stacks: None,
            outage: None,
            rng,
        }
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        let outage_ends = self.outage.map(|(end, _)| end);
        self.due.into_iter().chain(outage_ends).min()
    }

    /// Lets happen to any of `sockets` what is due.
    pub(super) fn happen(&mut self, pair: &mut Pair, sockets: &[SocketId]) {
        let now = pair.now();
        if let Some((end, losses)) = self.outage
            && end <= now
        {
            set_losses(pair, losses);
            self.outage = None;
        }
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.left -= 1;
        let pause = self.rng.span(self.pause) + Duration::from_micros(1);
        self.due = (self.left > 0).then(|| now + pause);
        if !sockets.is_empty() {
            let socket = self.rng.pick(sockets);
            self.disturb(pair, socket);
        }
    }

    fn disturb(&mut self, pair: &mut Pair, socket: SocketId) {
        let rng = &mut self.rng;
        if rng.happens(self.aborts) {
            // It may be over already.
            let _ = pair.request(socket, Request::Abort);
            return;
        }
        let on = rng.happens(Chance::percent(50));
        let option = match rng.below(14) {
            0 => ConnOption::NoDelay(on),
            1 => ConnOption::Cork(on),
            2 => ConnOption::QuickAck(on),
            3 => ConnOption::Congestion(rng.pick(&[
                Algorithm::Cubic,
                Algorithm::Reno,
                Algorithm::Bbr,
            ])),
            4 => ConnOption::MaxSegment(rng.between(100, 2_000) as u16),
            5 => return self.resize(pair, socket),
            6 => {
                pair.shed_out_of_order(socket);
                return;
            }
            7 => return self.reroute(pair),
            9 => return self.squeeze(pair),
            8 if self.floods => return self.flood(pair),
            10 | 11 => {
                // It may be over already.
                let _ = pair.move_connection(socket);
                return;
            }
            12 if self.stacks.is_some() => return self.replace(pair),
            _ => return self.cut(pair),
        };
        // Likewise.
        let _ = pair.request(socket, Request::SetOption(option));
    }

    fn resize(&mut self, pair: &mut Pair, socket: SocketId) {
        let bytes = self.rng.between(2_000, 500_000) as u32;
        let (now, host, conn) = (
            pair.now(),
            pair.socket(socket).host,
            pair.socket(socket).conn,
        );
        pair.host_mut(host)
            .stack
            .set_receive_buffer(now, conn, bytes);
    }

    /// Replaces the whole stack of one side.
    fn replace(&mut self, pair: &mut Pair) {
        let Some(configs) = &self.stacks else { return };
        let (at, host) = self.rng.pick(&[(0, pair.client), (1, pair.server)]);
        let mut secrets = [0; 32];
        for word in secrets.chunks_mut(8) {
            word.copy_from_slice(&self.rng.next_u64().to_le_bytes());
        }
        let stack = Stack::new(configs[at].clone(), secrets);
        pair.replace_stack(host, stack).expect("all are sound");
    }

    /// Sends what follows on another way, in one direction.
    fn reroute(&mut self, pair: &mut Pair) {
        let (client, server) = (pair.client, pair.server);
        let (from, to) = self.rng.pick(&[(client, server), (server, client)]);
        pair.link_mut(from, to).delay = self.rng.span(LONGEST_WAY);
    }

    /// Lets only smaller packets through, in one direction, with a router that says so or without.
    fn squeeze(&mut self, pair: &mut Pair) {
        let (client, server) = (pair.client, pair.server);
        let (from, to) = self.rng.pick(&[(client, server), (server, client)]);
        let least = if pair.server_addr().is_ipv6() {
            1_280
        } else {
            600
        };
        let mtu = self.rng.between(least, 2_000) as usize;
        let link = pair.link_mut(from, to);
        (link.mtu, link.icmp) = (mtu, self.rng.happens(Chance::percent(50)));
    }

    /// SYNs arrive at the server whose senders will never answer.
    fn flood(&mut self, pair: &mut Pair) {
        let (server, victim) = (pair.server, pair.server_addr());
        for _ in 0..self.rng.between(1, FLOOD) {
            let source = match victim.ip() {
                IpAddr::V4(_) => [10, 9, self.rng.below(256) as u8, 1].into(),
                IpAddr::V6(_) => [0xfd00, 9, 0, 0, 0, 0, 0, self.rng.below(65_536) as u16].into(),
            };
            let mut syn = forge(
                FlowKey {
                    local: source,
                    remote: victim.ip(),
                    local_port: self.rng.between(1, 65_535) as u16,
                    remote_port: victim.port(),
                },
                Flags::SYN,
            );
            syn.tcp.seq = SeqNumber(self.rng.next_u64() as u32);
            pair.inject(server, &syn, &[]);
        }
    }

    /// Lets nothing through, in either direction, for a while.
    fn cut(&mut self, pair: &mut Pair) {
        if self.outage.is_none() {
            let losses = set_losses(pair, [Chance::ALWAYS; 2]);
            self.outage = Some((pair.now() + self.rng.span(OUTAGE), losses));
        }
    }
}

/// Sets how likely a frame is to be lost, in each direction; returns how likely it was.
fn set_losses(pair: &mut Pair, losses: [Chance; 2]) -> [Chance; 2] {
    let (client, server) = (pair.client, pair.server);
    let [up, down] = losses;
    [
        core::mem::replace(&mut pair.link_mut(client, server).loss, up),
        core::mem::replace(&mut pair.link_mut(server, client).loss, down),
    ]
}
