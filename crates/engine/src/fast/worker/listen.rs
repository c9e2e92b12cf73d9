//! Listeners and the steering of their ports.
//!
//! A port is steered as *mixed* first: whatever connections the kernel has there stay the kernel's, until
//! the slow half [says](super::kernel) that it has none. When a listener goes, its port stays steered for
//! as long as connections of ours are left on it, and new ones are the kernel's.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use netdev::Device;
use netdev::steering::STALE;
use rustix::io::Errno;
use tcp::{ConnOptions, ListenError, ListenSpec};

use super::Worker;
use crate::config::{Congestion, shares};
use crate::exchange::{Inherited, Tale};
use crate::fast::connections::SessionId;
use crate::fast::handoff::Full;
use crate::fast::listeners::Listener;
use crate::network::{Network, Steered, canonical, scoped};
use crate::slow::control::{Chosen, Proof};
use crate::stats::Drop;

/// Endpoints without a listener that are still steered.
#[derive(Debug, Default)]
pub(super) struct Closing(Vec<(IpAddr, u16)>);

impl Closing {
    /// One more, unless it is known.
    pub fn add(&mut self, address: IpAddr, port: u16) -> bool {
        let new = !self.0.contains(&(address, port));
        if new {
            self.0.push((address, port));
        }
        new
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<D: Device, N: Network> Worker<D, N> {
    /// A process accepts on `local` from now on; it has shown the kernel's listening socket there. Of how many may
    /// wait it says what its program has asked for. The name by which it knows that.
    pub(super) fn listen(
        &mut self,
        session: SessionId,
        local: SocketAddr,
        proof: Proof,
        backlog: u32,
    ) -> Result<u32, Errno> {
        // The kernel has bounded what the program asked for (net.core.somaxconn).
        let backlog = proof.chosen.backlog.unwrap_or(backlog);
        let (number, new) = self.open_listener(session, local, proof, backlog)?;
        let name = self.join_listener(number, session).ok_or(Errno::BADF)?;
        if new {
            self.begin_listening(number)?;
        }
        Ok(name)
    }

    /// The listeners that a process has inherited from a parent at another worker are held for it here, as
    /// they are after a fork. Those of them that were not here before.
    pub(super) fn inherit_listeners(
        &mut self,
        session: SessionId,
        inherits: &[Inherited],
    ) -> Vec<SocketAddr> {
        let mut begun = Vec::new();
        for it in inherits {
            let opened = self.open_listener(session, it.local, it.proof, it.backlog);
            let held = opened.and_then(|(number, new)| {
                if let Some(listener) = self.listeners.get_mut(number) {
                    listener.holds += 1;
                }
                if new {
                    self.begin_listening(number)?;
                    begun.push(it.local);
                }
                Ok(number)
            });
            match held {
                Ok(number) => {
                    if let Some(session) = self.sessions.get_mut(session) {
                        session.inherited_listeners.push((it.name, number));
                    }
                }
                // Its clients are the kernel's, and those of the others that have it.
                Err(error) => {
                    tracing::warn!(local = %it.local, %error, "not listened on here, too")
                }
            }
        }
        begun
    }

    /// Listeners, by their names in a session, as another worker needs to know them; `None` if one has
    /// nothing to show.
    pub(super) fn as_inherited(&mut self, listeners: &[(u32, u32)]) -> Option<Vec<Inherited>> {
        let each = listeners.iter().map(|&(name, number)| {
            let listener = self.listeners.get_mut(number)?;
            Some(Inherited {
                name,
                local: listener.local,
                proof: Proof {
                    v6_only: listener.v6_only,
                    cookie: *listener.proofs.first()?,
                    owner: listener.owner,
                    chosen: listener.chosen,
                },
                backlog: listener.backlog,
            })
        });
        each.collect()
    }

    /// The listener on `local`, for which a session has shown the kernel's socket: its number, and whether
    /// it is new. Nobody accepts from that yet, and nothing is steered for it.
    fn open_listener(
        &mut self,
        session: SessionId,
        local: SocketAddr,
        proof: Proof,
        backlog: u32,
    ) -> Result<(u32, bool), Errno> {
        self.may_listen(session, local.port())?;
        let uid = self.sessions.get(session).map_or(0, |s| s.process.uid);
        // Before anything is steered: what is new is the kernel's while it is not.
        if let Err(error) = self.network.show_socket(proof.cookie, uid) {
            self.counters.drop(Drop::ListenersFull);
            // Who has as many as a user may does not fill the log as well.
            if Errno::from_io_error(&error) != Some(Errno::DQUOT) {
                tracing::warn!(%local, %error, "the steering is shown no more sockets");
            }
            return Err(Errno::NOBUFS);
        }
        let opened = self.find_or_make_listener(session, local, proof, backlog);
        if opened.is_err() {
            self.hide_unless_proof(proof.cookie);
        }
        opened
    }

    /// What is new for the kernel's socket with this cookie is the kernel's, if no listener has it.
    fn hide_unless_proof(&mut self, cookie: u64) {
        let mut listeners = self.listeners.iter();
        if !listeners.any(|listener| listener.proofs.contains(&cookie)) {
            self.network.hide_socket(cookie);
        }
    }

    /// What is known of a new one before there is anything to undo.
    fn may_listen(&mut self, session: SessionId, port: u16) -> Result<(), Errno> {
        if self.stopping {
            // The next engine is to be asked.
            return Err(Errno::AGAIN);
        }
        if !self.config.access.admits_listener(port) {
            return Err(Errno::ACCESS);
        }
        // Each costs something whenever a process goes or forks, and there need not be a socket for each.
        let most = self.config.limits.listeners as usize;
        if self.listeners.of_session(session).count() >= most {
            self.counters.drop(Drop::ListenersFull);
            return Err(Errno::NOBUFS);
        }
        Ok(())
    }

    fn find_or_make_listener(
        &mut self,
        session: SessionId,
        local: SocketAddr,
        Proof {
            v6_only,
            cookie,
            owner,
            chosen,
        }: Proof,
        backlog: u32,
    ) -> Result<(u32, bool), Errno> {
        let local = canonical(local);
        let backlog = backlog.min(self.config.limits.accept_backlog);
        if let Some(listener) = self.listeners.on(local) {
            let number = listener.number;
            // Who shows another socket shares the port with who is there, or has taken it over. Another user's it
            // cannot share, whether or not it is known by now that the other one listens no longer.
            let shares = listener.owner == owner || listener.proofs.contains(&cookie);
            if listener.proofs.is_empty() || !shares {
                tracing::warn!(%local, "taken over from a program that listens there no longer");
                self.remove_listener(number);
            }
        }
        if let Some(listener) = self.listeners.on(local) {
            // A process that stops listening and keeps its socket has no member, and the socket is here.
            if !listener.may_prove(cookie) {
                self.counters.drop(Drop::ListenersFull);
                return Err(Errno::NOBUFS);
            }
            listener.prove(cookie);
            listener.backlog = listener.backlog.max(backlog);
            let (number, id, backlog) = (listener.number, listener.id, listener.backlog);
            let enough = self.sharing.users.is_beyond(listener.uid);
            let admitted = listener.is_admitted(&self.netfilter, &self.confined);
            if listener.how == Steered::Closing && admitted && !enough {
                // Its first socket had stopped listening.
                self.mix(number);
            }
            self.stack.set_backlog(id, backlog);
            self.choose(number, chosen);
            return Ok((number, false));
        }
        if !self.is_on_our_link(local) {
            return Err(Errno::OPNOTSUPP);
        }
        // A link-local one of ours is named with the link that has it.
        let on_its_link = scoped(local, self.network.scope_of(local.ip()));
        let own = self.network.addresses().contains(&local.ip()) && local == on_its_link;
        if !(local.ip().is_unspecified() || own || self.is_here(local.ip())) {
            return Err(Errno::OPNOTSUPP);
        }
        let uid = self.sessions.get(session).map_or(0, |s| s.process.uid);
        let holders = self.listeners.iter().map(|listener| listener.uid);
        if !shares::has_room(self.config.limits.listeners as usize, uid, holders) {
            self.counters.drop(Drop::ListenersFull);
            return Err(Errno::NOBUFS);
        }
        let spec = ListenSpec {
            addr: Some(local.ip()),
            port: local.port(),
            backlog,
            max_half_open: self.config.limits.half_open,
            v6_only,
            options: self.listener_options(chosen),
        };
        let id = self.stack.listen(spec).map_err(|error| match error {
            ListenError::AddressInUse => Errno::ADDRINUSE,
            ListenError::TooManyListeners => Errno::NOBUFS,
            ListenError::BadAddress => Errno::INVAL,
        })?;
        let mut listener = Listener::new(id, uid, local, v6_only, backlog);
        listener.owner = owner;
        listener.prove(cookie);
        listener.chosen = chosen;
        listener.family_left = self.netfilter.leaves(local);
        let admitted = listener.is_admitted(&self.netfilter, &self.confined);
        if !admitted || self.sharing.users.is_beyond(uid) {
            // Its clients are the kernel's for as long as the rules say so, its socket is bound to an interface (a
            // child that comes here has shown nothing), or its user has enough.
            listener.how = Steered::Closing;
        }
        Ok((self.listeners.insert(listener), true))
    }

    /// Lets clients come to a new listener.
    fn begin_listening(&mut self, number: u32) -> Result<(), Errno> {
        let Some(listener) = self.listeners.get_mut(number) else {
            return Err(Errno::BADF);
        };
        let local = listener.local;
        // The others know of it before a SYN can come to one of them.
        if let Some(handoff) = &self.handoff
            && let Err(Full) = handoff.begin_accepting(local, listener.v6_only)
        {
            self.remove_listener(number);
            return Err(Errno::NOBUFS);
        }
        if let Err(error) = self.steer_listener(number) {
            tracing::warn!(%local, %error, "the port cannot be steered");
            self.remove_listener(number);
            // This engine is not away, whatever the kernel says.
            let errno = Errno::from_io_error(&error).filter(|errno| *errno != Errno::AGAIN);
            return Err(errno.unwrap_or(Errno::NOBUFS));
        }
        if let Some(listener) = self.listeners.get_mut(number) {
            listener.mix(self.network.now());
        }
        self.ask_of_mixed(number);
        tracing::info!(%local, "listening");
        Ok(())
    }

    /// The program of a listening socket has set options on it, or called listen(2) again, which the socket shows.
    pub(super) fn listener_chosen(
        &mut self,
        session: SessionId,
        name: u32,
        proof: &Proof,
    ) -> Result<(), Errno> {
        let number = self.listeners.of_member(name).ok_or(Errno::BADF)?;
        let listener = self.listeners.get_mut(number).ok_or(Errno::BADF)?;
        let own = listener
            .member_mut(name)
            .is_some_and(|m| m.session == session);
        if !own || !listener.proofs.contains(&proof.cookie) {
            return Err(Errno::BADF);
        }
        if let Some(backlog) = proof.chosen.backlog {
            let backlog = backlog.min(self.config.limits.accept_backlog);
            // Of several sockets at one place each has its own in the kernel.
            listener.backlog = match *listener.proofs {
                [_] => backlog,
                _ => backlog.max(listener.backlog),
            };
            self.stack.set_backlog(listener.id, listener.backlog);
        }
        self.choose(number, proof.chosen);
        Ok(())
    }

    fn choose(&mut self, number: u32, chosen: Chosen) {
        let options = self.listener_options(chosen);
        if let Some(listener) = self.listeners.get_mut(number) {
            listener.chosen = chosen;
            self.stack.set_listener_options(listener.id, options);
        }
    }

    /// All listeners have options as the configuration is now.
    pub(super) fn choose_anew(&mut self) {
        let numbers: Vec<u32> = self
            .listeners
            .iter()
            .map(|listener| listener.number)
            .collect();
        for number in numbers {
            if let Some(chosen) = self
                .listeners
                .get_mut(number)
                .map(|listener| listener.chosen)
            {
                self.choose(number, chosen);
            }
        }
    }

    fn listener_options(&self, chosen: Chosen) -> ConnOptions {
        ConnOptions {
            max_segment: chosen.max_segment,
            fast_open: chosen.fast_open,
            defer_accept: chosen.defer_accept,
            ..self.connection_options()
        }
    }

    /// What connections start with.
    pub(super) fn connection_options(&self) -> ConnOptions {
        ConnOptions {
            congestion: match self.config.tcp.congestion {
                Congestion::Cubic => tcp::Algorithm::Cubic,
                Congestion::Reno => tcp::Algorithm::Reno,
                Congestion::Bbr => tcp::Algorithm::Bbr,
            },
            receive_buffer: self.config.tcp.receive_buffer,
            tune_receive_buffer: true,
            ..ConnOptions::default()
        }
    }

    /// Whether a listener covers an own address that is not steered for it.
    fn gains_an_address(&self, number: u32) -> bool {
        let mut own = self.network.addresses().iter();
        let listener = self.listeners.get(number);
        listener.is_some_and(|l| own.any(|a| l.covers(*a) && !l.steered.contains(a)))
    }

    /// Steers the own addresses that a listener covers, and no others.
    fn steer_listener(&mut self, number: u32) -> std::io::Result<()> {
        let own = self.network.addresses().to_vec();
        let Some(listener) = self.listeners.get_mut(number) else {
            return Ok(());
        };
        let port = listener.local.port();
        let covered: Vec<_> = own.into_iter().filter(|a| listener.covers(*a)).collect();
        let gone = listener.steered.extract_if(.., |a| !covered.contains(a));
        let gone: Vec<_> = gone.collect();
        for &address in &covered {
            if !listener.steered.contains(&address) {
                let how = match listener.how_on(address) {
                    // What has come there before was the kernel's.
                    Steered::Engine => Steered::Mixed,
                    how => how,
                };
                self.network.steer(address, port, how)?;
                listener.steered.push(address);
            }
        }
        let steered = &listener.steered;
        let taken_up = |(a, p): &mut (IpAddr, u16)| *p == port && steered.contains(a);
        self.closing.0.retain_mut(|endpoint| !taken_up(endpoint));
        for address in gone {
            self.close_endpoint(address, port);
        }
        Ok(())
    }

    /// A listener no longer wants an endpoint.
    fn close_endpoint(&mut self, address: IpAddr, port: u16) {
        let wanted = |l: &Listener| l.local.port() == port && l.steered.contains(&address);
        if self.listeners.iter().any(wanted) {
            return;
        }
        if self.stack.uses_local_port(port) {
            match self.network.steer(address, port, Steered::Closing) {
                Ok(()) => self.closing.0.push((address, port)),
                Err(error) => tracing::warn!(%address, port, %error, "the port stays steered"),
            }
        } else {
            self.network.unsteer(address, port);
        }
    }

    /// A process accepts under this name no longer.
    pub(super) fn leave_listener(&mut self, name: u32) {
        let Some(number) = self.listeners.leave(name) else {
            return;
        };
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        if listener.is_abandoned() {
            self.abandon_listener(number);
        } else {
            // What it was not handed is for the others.
            self.hand_over(number);
        }
    }

    /// Ends a listener; what waits in it ends by RST, as in the kernel.
    pub(super) fn remove_listener(&mut self, number: u32) {
        self.give_away(number);
        let Some(listener) = self.listeners.remove(number) else {
            return;
        };
        if let Some(handoff) = &self.handoff {
            handoff.end_accepting(listener.local, listener.v6_only);
        }
        for &cookie in &listener.proofs {
            self.hide_unless_proof(cookie);
        }
        self.stack.unlisten(self.now, listener.id);
        for &address in &listener.steered {
            self.close_endpoint(address, listener.local.port());
        }
        self.slow.tell(Tale::Unlistened(listener.local));
        tracing::info!(local = %listener.local, "no longer listening");
    }

    /// The interface's own addresses have changed.
    pub(super) fn addresses_changed(&mut self) {
        let numbers: Vec<u32> = self.listeners.iter().map(|l| l.number).collect();
        for number in numbers {
            let gains = self.gains_an_address(number);
            if let Err(error) = self.steer_listener(number) {
                tracing::warn!(%error, "a new address is not steered");
            }
            let how = self.listeners.get_mut(number).map(|listener| listener.how);
            match how {
                // The kernel took clients there until now, of whom no earlier answer knows.
                Some(Steered::Engine | Steered::Mixed) if gains => self.mix(number),
                _ => self.ask_of_mixed(number),
            }
        }
        self.sweep_for_addresses();
    }

    /// Says that what has come is taken. If that of any worker has waited for long, whatever it was that kept its
    /// thread, the steering has left new connections to the kernel meanwhile: those stay its own.
    #[inline]
    pub(super) fn beat(&mut self) {
        let waited = self.network.beat();
        let absences = self.network.absences();
        if absences != self.absences {
            self.absences = absences;
            self.was_away(waited);
        }
    }

    /// Who was away need not be who has the listeners.
    fn was_away(&mut self, waited: Duration) {
        if waited >= STALE {
            tracing::warn!(
                waited_ms = waited.as_millis() as u64,
                "the engine did not run: new connections were the kernel's"
            );
        }
        self.mix_what_was_left();
    }

    /// Leaves endpoints to the kernel on which nothing of ours is left.
    pub(super) fn recheck_closing(&mut self) {
        let (stack, network) = (&self.stack, &mut self.network);
        let is_used = |port| stack.uses_local_port(port);
        for returned in self.lent.recheck(self.now, is_used) {
            self.slow.tell(returned);
        }
        self.closing.0.retain(|&(address, port)| {
            let needed = stack.uses_local_port(port);
            if !needed {
                network.unsteer(address, port);
            }
            needed
        });
    }

    /// New connections are the kernel's from now on.
    pub(super) fn yield_listeners(&mut self) {
        let numbers: Vec<u32> = self.listeners.iter().map(|l| l.number).collect();
        for number in numbers {
            if let Some(listener) = self.listeners.get_mut(number) {
                listener.how = Steered::Closing;
            }
            self.steer_as_said(number);
        }
    }

    /// Steers what a listener has in the way that it says.
    pub(super) fn steer_as_said(&mut self, number: u32) {
        let Some(listener) = self.listeners.get_mut(number) else {
            return;
        };
        let port = listener.local.port();
        for &address in &listener.steered {
            let how = listener.how_on(address);
            if let Err(error) = self.network.steer(address, port, how) {
                tracing::warn!(%address, port, %error, "the port is steered as before");
            }
        }
    }
}
