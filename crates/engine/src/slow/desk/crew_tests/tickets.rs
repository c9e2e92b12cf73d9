//! Tickets, and who claims them.

use queue_pair::ConnRef;
use queue_pair::control::Carried;

use super::*;
use crate::exchange::{Claimed, Refused};

/// One that this worker has issued to this process.
fn ticket(two: &mut Two, issuer: &mut Channel, worker: usize) -> OwnedFd {
    let conn = ConnRef {
        index: 3,
        generation: 1,
    };
    let carried = Carried::default();
    two.asks(issuer, &Request::Ticket { conn, carried });
    let (client, _) = two.words(worker).pop().expect("asked");
    two.answers(worker, client, Ok(Told::Ticket { grant: 0 }));
    let received = issuer.try_receive::<Reply>().expect("open");
    let (_, mut fds) = received.expect("answered");
    fds.pop().expect("a ticket")
}

fn claim(two: &mut Two, channel: &mut Channel, ticket: &OwnedFd) {
    let shown = ticket.try_clone().expect("descriptors");
    let fds = [shown].into_iter().collect();
    channel.send(&Request::Claim, fds).expect("sent");
    two.desk.attend();
}

#[test]
fn a_ticket_is_good_at_the_worker_that_has_issued_it() {
    let mut two = Two::new();
    let (mut elsewhere, _, _session) = two.attach(None);
    let (mut issuer, home, _session) = two.attach(None);
    assert_eq!(home, 1);
    let ticket = ticket(&mut two, &mut issuer, 1);
    claim(&mut two, &mut elsewhere, &ticket);
    let Some(Reply::Error { message, .. }) = reply(&mut elsewhere) else {
        panic!("refused");
    };
    assert!(message.contains("another worker"), "{message}");
    assert!(two.words(0).is_empty() && two.words(1).is_empty());
    claim(&mut two, &mut issuer, &ticket);
    assert_eq!(two.words(1).len(), 1);
}

#[test]
fn a_claim_that_was_given_up_is_taken_back_if_it_gave_something() {
    let mut two = Two::new();
    let (mut channel, home, _session) = two.attach(None);
    let ticket = ticket(&mut two, &mut channel, home);
    let [ours, theirs] = [80, 81].map(local);
    let claimed = |index, is_new| {
        let conn = tcp::ConnId {
            index,
            generation: 1,
        };
        Claimed {
            conn,
            local: ours,
            peer: theirs,
            is_new,
        }
    };
    // Of the claims that were answered the last counts, and a claim that was refused is one.
    let claims: [&[Result<Claimed, Errno>]; 5] = [
        &[],
        &[Ok(claimed(3, true))],
        &[Ok(claimed(3, true)), Ok(claimed(4, true))],
        &[Ok(claimed(3, true)), Ok(claimed(3, false))],
        &[Ok(claimed(3, true)), Err(Errno::BUSY)],
    ];
    for (answers, given_up) in claims.into_iter().zip([None, Some(3), Some(4), None, None]) {
        for answer in answers {
            claim(&mut two, &mut channel, &ticket);
            let (client, _) = two.words(home).pop().expect("asked");
            let answer = answer.map(Told::Claimed).map_err(Refused::Errno);
            two.answers(home, client, answer);
            assert!(reply(&mut channel).is_some());
        }
        two.asks(&mut channel, &Request::Disclaim);
        let asked = two.asked(home).pop();
        let taken_back = match &asked {
            Some((_, Ask::Disclaim(conn))) => Some(conn.index),
            None => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(taken_back, given_up);
        if let Some((client, _)) = asked {
            two.answers(home, client, Ok(Told::Done));
        }
        let done = matches!(reply(&mut channel), Some(Reply::Done));
        assert_eq!(done, given_up.is_some());
    }
}
