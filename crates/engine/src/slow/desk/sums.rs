//! What several workers answer to one question, as one answer.

use crate::exchange::{Answer, LISTENERS, Listening, ROWS, Refused, SESSIONS, Snapshot, Told};

/// Two answers as one. Who refuses is heard before who does not, but for one that has ended before it
/// could answer.
pub(super) fn both(one: Answer, other: Answer) -> Answer {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(added(one, other)),
        (Ok(told), Err(Refused::Stopping)) | (Err(Refused::Stopping), Ok(told)) => Ok(told),
        (Err(refused), _) | (_, Err(refused)) => Err(refused),
    }
}

fn added(one: Told, other: Told) -> Told {
    match (one, other) {
        (Told::Stats(mut one), Told::Stats(other)) => {
            one.add(&other);
            Told::Stats(one)
        }
        (
            Told::Explained {
                listeners: mut all,
                connections: [across, within],
            },
            Told::Explained {
                listeners,
                connections: more,
            },
        ) => {
            for listening in listeners {
                add_listener(&mut all, listening);
            }
            Told::Explained {
                listeners: all,
                connections: [across + more[0], within + more[1]],
            }
        }
        // They do the same, and say so.
        (one, _) => one,
    }
}

fn add_listener(all: &mut Vec<Listening>, more: Listening) {
    let full = all.len() >= ROWS;
    let known = all.iter_mut().find(|known| known.local == more.local);
    match known {
        Some(known) => {
            known.waiting += more.waiting;
            known.backlog = known.backlog.max(more.backlog);
            known.credit = known.credit.saturating_add(more.credit);
            known.enough |= more.enough;
            known.confined |= more.confined;
        }
        None if full => {}
        None => all.push(more),
    }
}

impl Snapshot {
    /// With what another worker has counted. What is the same for all (the steering's counts, the MTU) or
    /// of one alone (its core, how it waits) is the first one's.
    fn add(&mut self, other: &Self) {
        let Self {
            worker,
            tcp,
            device,
            queues,
            steering: _,
            connections,
            half_open,
            time_wait,
            mtu: _,
            core: _,
            serving: _,
            listeners,
            attached,
            paths,
            held_frames,
            receive_memory,
            send_memory,
            sessions,
            listening,
        } = other;
        self.worker.add(worker);
        self.tcp.add(tcp);
        self.device += *device;
        self.queues.extend_from_slice(queues);
        self.queues.sort_by_key(|(queue, _)| *queue);
        for (count, more) in [
            (&mut self.connections, connections),
            (&mut self.half_open, half_open),
            (&mut self.time_wait, time_wait),
            (&mut self.listeners, listeners),
            (&mut self.attached, attached),
            (&mut self.paths, paths),
            (&mut self.held_frames, held_frames),
            (&mut self.receive_memory, receive_memory),
            (&mut self.send_memory, send_memory),
        ] {
            *count += more;
        }
        let room = SESSIONS - self.sessions.len().min(SESSIONS);
        self.sessions.extend(sessions.iter().take(room));
        for (local, backlog, counts) in listening {
            let full = self.listening.len() >= LISTENERS;
            let known = self.listening.iter_mut().find(|(l, ..)| l == local);
            match known {
                Some((_, most, all)) => {
                    *most = (*most).max(*backlog);
                    all.add(counts);
                    // It is one, at several workers.
                    self.listeners -= 1;
                }
                None if full => {}
                None => self.listening.push((*local, *backlog, *counts)),
            }
        }
    }
}
