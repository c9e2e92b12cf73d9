//! Interests that are written down in an epoll set of the kernel's, where they outlive the program that
//! had them.
//!
//! A program that executes another one leaves it its epoll sets, and what it asked of connections of the
//! engine's stood in its memory. So it registers with the kernel, for the descriptor that is the connection to
//! the next program, a *note*: what was wanted, in bits that no file reports. The kernel keeps it, tells
//! nobody of it, and shows it in `/proc/self/fdinfo` ([`members`]).

use crate::readiness::Readiness;

/// The bits of what can be reported: those of poll, and `EPOLLRDHUP`.
const REPORTED: u32 = (1 << SHIFT) - 1;

/// In a note they stand so much further up, where no file reports anything.
const SHIFT: u32 = 14;

/// Says that this is a note: `EPOLLMSG`, which no file reports either.
const NOTE: u32 = 0x400;

/// `EPOLLEXCLUSIVE` in a note: with the flag itself the kernel would refuse such bits. The place is that of
/// a bit that has no meaning.
const EXCLUSIVE: u32 = 1 << (SHIFT + 12);

/// The events with which the kernel is told of an interest that it is to keep.
pub fn note(wanted: Readiness) -> u32 {
    let flags = wanted & (Readiness::EDGE | Readiness::ONESHOT);
    let exclusive = match wanted.intersects(Readiness::EXCLUSIVE) {
        true => EXCLUSIVE,
        false => 0,
    };
    flags.0 | ((wanted.0 & REPORTED) << SHIFT & !EXCLUSIVE) | exclusive | NOTE
}

/// The interest of which these events are the note, if they are one.
pub fn noted(events: u32) -> Option<Readiness> {
    // The kernel adds errors and hang-ups to whatever it is told of.
    if events & REPORTED & !Readiness::ALWAYS.0 != NOTE {
        return None;
    }
    let mut wanted = Readiness((events & !EXCLUSIVE) >> SHIFT & REPORTED);
    wanted |= Readiness(events) & (Readiness::EDGE | Readiness::ONESHOT);
    if events & EXCLUSIVE != 0 {
        wanted |= Readiness::EXCLUSIVE;
    }
    Some(wanted)
}

/// One of what an epoll set of the kernel's watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The number under which it was added. It may be closed by now, or something else.
    pub fd: i32,
    /// What is wanted, as the kernel has it.
    pub events: u32,
    /// The program's own 64 bits.
    pub data: u64,
    /// The inode of what is watched: of a socket it is nobody else's.
    pub inode: u64,
}

/// What an epoll set watches, from the text of its `/proc/self/fdinfo` (proc(5)). A line that is none of
/// these is passed over.
pub fn members(text: &str) -> impl Iterator<Item = Member> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let mut value = |name: &str| {
            // The value stands right after the name, or after a space.
            match words.next()?.split_once(':')? {
                (found, "") if found == name => words.next(),
                (found, value) if found == name => Some(value),
                _ => None,
            }
        };
        Some(Member {
            fd: value("tfd")?.parse().ok()?,
            events: u32::from_str_radix(value("events")?, 16).ok()?,
            data: u64::from_str_radix(value("data")?, 16).ok()?,
            inode: value("pos")
                .and_then(|_| value("ino"))
                .and_then(|inode| u64::from_str_radix(inode, 16).ok())?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_was_wanted_and_nothing_that_a_file_reports() {
        let (edge, once) = (Readiness::EDGE, Readiness::ONESHOT);
        let all = Readiness::IN | Readiness::OUT | Readiness::RDHUP | Readiness::WRNORM;
        for wanted in [
            Readiness::ALWAYS,
            Readiness::IN | Readiness::ALWAYS,
            all | Readiness::ALWAYS | edge,
            Readiness::OUT | Readiness::ALWAYS | Readiness::EXCLUSIVE | edge,
            Readiness::IN | Readiness::ALWAYS | once,
            // It was reported.
            once,
            once | edge,
        ] {
            let note = note(wanted);
            assert_eq!(note & REPORTED, NOTE, "{wanted:?}");
            assert_eq!(note & Readiness::EXCLUSIVE.0, 0, "{wanted:?}");
            assert_eq!(noted(note), Some(wanted));
            assert_eq!(noted(note | Readiness::ALWAYS.0), Some(wanted));
        }
    }

    #[test]
    fn what_a_program_asks_is_no_note() {
        for events in [0, 0x18, 0x1, 0x2005, 0x401 | 0x18, 1 << 31 | 0x1d] {
            assert_eq!(noted(events), None, "{events:x}");
        }
    }

    #[test]
    fn members_are_read_from_what_the_kernel_writes() {
        let text = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\n\
            tfd:        7 events: 8000201d data: ffffffffffffffff  pos:0 ino:61af sdev:8\n\
            tfd:       12 events:       19 data:                7  pos:0 ino:3 sdev:c\n\
            tfd: none events: 19 data: 7 pos:0 ino:3 sdev:c\n\
            tfd: 5 events: 19\n";
        let found: Vec<_> = members(text).collect();
        let [one, other] = found[..] else {
            panic!("{found:?}");
        };
        let wanted = Member {
            fd: 7,
            events: 0x8000_201d,
            data: u64::MAX,
            inode: 0x61af,
        };
        assert_eq!(one, wanted);
        assert_eq!((other.fd, other.data, other.inode), (12, 7, 3));
    }
}
