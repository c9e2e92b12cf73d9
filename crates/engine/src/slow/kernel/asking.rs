//! Questions to the kernel that may wait for its locks, asked by a thread that may wait.
//!
//! What is asked of neighbours, how many queues there are, and what the interface and its addresses are, where
//! notifications of that were lost, the kernel answers under the lock that whoever changes the network holds (RTNL):
//! a container that starts, a route daemon, a driver that resets its device. A worker does not wait for those. It
//! hands its questions on, and the answers come as changes do.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use netdev::interface::Interface;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use wire::ethernet::MacAddr;

use super::link::LinkState;
use super::neighbours::{Change, Knowledge, Neighbours};
use super::opener::Opener;
use super::{addresses, link};
use crate::all_or_none::AbortOnPanic;

/// Questions that wait at a time. Who finds no room asks again when he needs the answer again.
const ROOM: usize = 1024;
/// Answers that are taken in one go.
const AT_ONCE: usize = 64;

/// After so long without another question, one that the kernel has not answered is asked again: it gives no answer
/// while somebody holds its lock for longer than it is waited for.
const AGAIN: Duration = Duration::from_secs(1);

/// There is no room for more questions now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// How much had been told of neighbours when a question was asked. What is told of one later is newer than the
/// answer, however late that comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AsOf(u64);

impl AsOf {
    /// With one thing more that was told.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What the kernel is asked, or told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// What it knows of a neighbour.
    Neighbour(IpAddr, AsOf),
    /// The same, after it was told to resolve or to probe it.
    Probe(IpAddr, AsOf),
    /// Nothing: a neighbour answers from this address.
    Confirm(IpAddr, MacAddr),
    /// How many receive queues the interface has.
    Queues,
    /// What the interface is like, by the number of the question.
    Link(u32),
    /// Which addresses it has.
    Addresses(u32),
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What is known of a neighbour, to a question of that time.
    Neighbour(Change, AsOf),
    /// So many receive queues.
    Queues(u32),
    /// What the interface is like, to the question of this number; `None` if it is gone.
    Link(u32, Option<LinkState>),
    /// Its addresses, to the question of this number.
    Addresses(u32, Vec<IpAddr>),
}

/// The kernel did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unanswered;

/// Who answers questions, and waits for the kernel.
pub trait Answers: Send + 'static {
    /// The answer, if there is one to give.
    ///
    /// # Errors
    /// It was not to be had now: ask again.
    fn answer(&mut self, question: Question) -> Result<Option<Answer>, Unanswered>;
}

/// The kernel, asked about an interface.
#[derive(Debug)]
pub struct OfKernel {
    interface: Interface,
    neighbours: Neighbours,
    /// Who tells the kernel what not everybody may.
    opener: Opener,
}

impl OfKernel {
    /// With a socket of its own.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn of_interface(interface: Interface, opener: Opener) -> rustix::io::Result<Self> {
        let neighbours = Neighbours::on_interface(interface.index)?;
        Ok(Self {
            interface,
            neighbours,
            opener,
        })
    }

    /// What it knows of a neighbour now.
    pub fn neighbour(&mut self, address: IpAddr) -> Knowledge {
        let asked = self.neighbours.ask(address);
        asked.unwrap_or_else(|error| {
            tracing::warn!(next_hop = %address, %error, "the kernel does not say who the neighbour is");
            Knowledge::Unresolved
        })
    }

    fn told_of(&mut self, address: IpAddr, as_of: AsOf) -> Result<Option<Answer>, Unanswered> {
        let knowledge = self.neighbours.ask(address);
        let knowledge = known(knowledge, "the kernel does not say who the neighbour is")?;
        let knowledge = knowledge.unwrap_or(Knowledge::Unresolved);
        Ok(Some(Answer::Neighbour(
            Change { address, knowledge },
            as_of,
        )))
    }
}

/// What was found, or words of why not. An answer that is only late, or for which there was no memory, may come yet.
fn known<T>(found: rustix::io::Result<T>, otherwise: &str) -> Result<Option<T>, Unanswered> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => {
            tracing::warn!(%error, "{otherwise}");
            match error {
                Errno::AGAIN | Errno::INTR | Errno::BUSY | Errno::NOBUFS | Errno::NOMEM => {
                    Err(Unanswered)
                }
                _ => Ok(None),
            }
        }
    }
}

impl Answers for OfKernel {
    fn answer(&mut self, question: Question) -> Result<Option<Answer>, Unanswered> {
        match question {
            Question::Neighbour(address, as_of) => self.told_of(address, as_of),
            Question::Probe(address, as_of) => {
                // Who is told that it is used asks a permanent entry's neighbour from then on, as any other's. One that
                // answers needs no probe.
                if let Ok(knowledge @ Knowledge::Resolved { stale: false, .. }) =
                    self.neighbours.ask(address)
                {
                    let change = Change { address, knowledge };
                    return Ok(Some(Answer::Neighbour(change, as_of)));
                }
                match self.opener.probe(self.interface.index, address) {
                    Ok(()) => {}
                    // Too many are asked for at once, or the opener is late.
                    Err(Errno::BUSY | Errno::TIMEDOUT) => return Err(Unanswered),
                    // That it is gone has been said.
                    Err(Errno::PIPE) => {}
                    Err(error) => {
                        tracing::warn!(next_hop = %address, %error, "the kernel does not resolve the neighbour");
                    }
                }
                // One that needs no probe does not change, and would not be told of.
                self.told_of(address, as_of)
            }
            Question::Confirm(address, mac) => {
                if let Err(error) = self.opener.confirm(self.interface.index, address, mac) {
                    tracing::debug!(next_hop = %address, %error, "the kernel does not take the confirmation");
                }
                Ok(None)
            }
            // Of one that has no channels it is never known.
            Question::Queues => Ok(self
                .interface
                .count_receive_queues()
                .ok()
                .map(Answer::Queues)),
            Question::Link(number) => {
                let state = known(link::ask(self.interface.index), "the link is not known")?;
                Ok(state.map(|state| Answer::Link(number, state)))
            }
            Question::Addresses(number) => {
                let list = addresses::ask(self.interface.index);
                let list = known(list, "own addresses are not known")?;
                Ok(list.map(|list| Answer::Addresses(number, list)))
            }
        }
    }
}

/// Questions on their way, and answers on their way back.
#[derive(Debug)]
pub struct Asking {
    questions: SyncSender<Question>,
    answers: Receiver<Answer>,
    wire: Arc<OwnedFd>,
}

impl Asking {
    /// Of a thread that asks `of`; it ends with this.
    ///
    /// # Errors
    /// There are no more descriptors, or threads.
    pub fn of(mut of: impl Answers) -> std::io::Result<Self> {
        let (questions, asked) = sync_channel::<Question>(ROOM);
        // Who asks takes answers before it asks more than there is room for; a thread that waits for that holds
        // up nobody.
        let (says, answers) = sync_channel(ROOM);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wire = Arc::new(eventfd(0, flags)?);
        let rings = Arc::clone(&wire);
        std::thread::Builder::new()
            .name("asking".to_owned())
            .spawn(move || {
                let _all_or_none = AbortOnPanic;
                let mut again = VecDeque::new();
                while let Some(question) = next(&asked, &mut again) {
                    match of.answer(question) {
                        Ok(None) => {}
                        Ok(Some(answer)) => {
                            if says.send(answer).is_err() {
                                return;
                            }
                        }
                        Err(Unanswered) if again.len() < ROOM => again.push_back(question),
                        Err(Unanswered) => {
                            tracing::warn!("too much waits to be asked of the kernel again: one question is dropped");
                        }
                    }
                    // Who found no room hears that there is some again, answer or not. Full is rung.
                    let _ = rustix::io::write(&*rings, &1u64.to_ne_bytes());
                }
            })?;
        Ok(Self {
            questions,
            answers,
            wire,
        })
    }

    /// Asks, and never waits.
    ///
    /// # Errors
    /// There is no room.
    pub fn ask(&self, question: Question) -> Result<(), Full> {
        self.questions.try_send(question).map_err(|_| Full)
    }

    /// The answers that have come, or some of them: then it [stays readable](Self::as_fd). Never waits.
    pub fn answers(&self, mut each: impl FnMut(Answer)) {
        let _ = rustix::io::read(&*self.wire, &mut [0u8; 8]);
        let mut taken = 0;
        // Bounded, so that who answers fast cannot keep a worker from its packets.
        for answer in self.answers.try_iter().take(AT_ONCE) {
            taken += 1;
            each(answer);
        }
        if taken == AT_ONCE {
            let _ = rustix::io::write(&*self.wire, &1u64.to_ne_bytes());
        }
    }
}

/// What is to be asked next: what somebody wants to know, or, where nobody has for a while, what had no answer.
/// `None`: nobody asks any more.
fn next(asked: &Receiver<Question>, again: &mut VecDeque<Question>) -> Option<Question> {
    if again.is_empty() {
        return asked.recv().ok();
    }
    match asked.recv_timeout(AGAIN) {
        Ok(question) => Some(question),
        Err(RecvTimeoutError::Timeout) => again.pop_front(),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

impl AsFd for Asking {
    /// Readable when there are answers.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel whose lock somebody holds until he says a word for each question.
    struct Locked(Receiver<()>);

    impl Answers for Locked {
        fn answer(&mut self, question: Question) -> Result<Option<Answer>, Unanswered> {
            let _ = self.0.recv();
            let Question::Neighbour(address, as_of) = question else {
                return Ok(None);
            };
            let knowledge = Knowledge::Failed;
            Ok(Some(Answer::Neighbour(
                Change { address, knowledge },
                as_of,
            )))
        }
    }

    /// A kernel that gives no answer to the first question.
    struct Busy(bool);

    impl Answers for Busy {
        fn answer(&mut self, question: Question) -> Result<Option<Answer>, Unanswered> {
            if !std::mem::replace(&mut self.0, true) {
                return Err(Unanswered);
            }
            let Question::Addresses(number) = question else {
                return Ok(None);
            };
            Ok(Some(Answer::Addresses(number, Vec::new())))
        }
    }

    #[test]
    fn what_the_kernel_has_not_answered_it_is_asked_again() {
        let asking = Asking::of(Busy(false)).expect("a thread");
        asking.ask(Question::Addresses(7)).expect("room");
        let mut answered = Vec::new();
        // The first word is that there is room again.
        while answered.is_empty() {
            assert!(has_news(&asking));
            asking.answers(|answer| answered.push(answer));
        }
        assert_eq!(answered, [Answer::Addresses(7, Vec::new())]);
    }

    /// Waits for a word of the thread's, for a minute at most.
    fn has_news(asking: &Asking) -> bool {
        let mut fds = [rustix::event::PollFd::new(
            asking,
            rustix::event::PollFlags::IN,
        )];
        let limit = rustix::time::Timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut fds, Some(&limit)).expect("polled") > 0
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn nobody_waits_for_the_kernels_lock() {
        let (word, hears) = std::sync::mpsc::channel();
        let asking = Asking::of(Locked(hears)).expect("a thread");
        // One is with the kernel, at most; then there is no room, and that is said at once.
        let mut taken = 0;
        while asking
            .ask(Question::Neighbour(
                address((taken % 200) as u8),
                AsOf(taken as u64),
            ))
            .is_ok()
        {
            taken += 1;
            assert!(taken <= ROOM + 1, "it is bounded");
        }
        assert!(taken >= ROOM);
        asking.answers(|answer| panic!("{answer:?} of a kernel that does not answer"));
        // It lets go: all come, in their order.
        for _ in 0..taken {
            word.send(()).expect("heard");
        }
        let mut come = 0;
        while come < taken {
            assert!(has_news(&asking), "{come} of {taken}");
            asking.answers(|answer| {
                let knowledge = Knowledge::Failed;
                let address = address((come % 200) as u8);
                let as_of = AsOf(come as u64);
                assert_eq!(
                    answer,
                    Answer::Neighbour(Change { address, knowledge }, as_of)
                );
                come += 1;
            });
        }
    }

    /// A kernel that says that it is asked.
    struct Heard(std::sync::mpsc::Sender<()>);

    impl Answers for Heard {
        fn answer(&mut self, question: Question) -> Result<Option<Answer>, Unanswered> {
            let _ = self.0.send(());
            let Question::Addresses(number) = question else {
                return Ok(None);
            };
            Ok(Some(Answer::Addresses(number, Vec::new())))
        }
    }

    #[test]
    fn many_answers_are_taken_some_at_a_time() {
        const MANY: u32 = 3 * AT_ONCE as u32;
        let (says, asked) = std::sync::mpsc::channel();
        let asking = Asking::of(Heard(says)).expect("a thread");
        for number in 0..=MANY {
            asking.ask(Question::Addresses(number)).expect("room");
        }
        // When it is asked the last, it has answered all others.
        for _ in 0..=MANY {
            asked.recv().expect("asked");
        }
        let mut answered = Vec::new();
        while answered.len() <= MANY as usize {
            assert!(has_news(&asking), "{} have come", answered.len());
            let before = answered.len();
            asking.answers(|answer| answered.push(answer));
            assert!(answered.len() - before <= AT_ONCE);
        }
        let all = (0..=MANY).map(|number| Answer::Addresses(number, Vec::new()));
        assert!(answered.into_iter().eq(all));
    }

    #[test]
    fn the_kernel_answers_about_the_loopback() {
        let loopback = Interface::find("lo").expect("every namespace has a loopback");
        let mut kernel = OfKernel::of_interface(loopback, Opener::default()).expect("netlink");
        let answer = kernel.answer(Question::Neighbour(address(1), AsOf(7)));
        let knowledge = Knowledge::Unresolved;
        let unknown = Change {
            address: address(1),
            knowledge,
        };
        assert_eq!(answer, Ok(Some(Answer::Neighbour(unknown, AsOf(7)))));
        // It has no channels to ask for.
        assert_eq!(kernel.answer(Question::Queues), Ok(None));
    }
}
