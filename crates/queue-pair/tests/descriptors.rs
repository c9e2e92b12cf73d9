//! Descriptors: what is encoded comes back, and whatever decodes is exactly what some descriptor
//! encodes to, so that no undefined bit passes.
// No unsafe code is reached from here, so there is nothing for miri to find.
#![cfg(not(any(loom, miri)))]

use proptest::prelude::*;
use queue_pair::descriptor::Descriptor;
use queue_pair::{
    Completion, ConnRef, ConnectBlock, Entry, FastOpen, OptionKind, Submission, Violation,
};
use std::fmt::Debug;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn conn() -> impl Strategy<Value = ConnRef> {
    any::<u64>().prop_map(ConnRef::from_word)
}

fn v4() -> impl Strategy<Value = SocketAddr> {
    any::<(u32, u16)>()
        .prop_map(|(ip, port)| SocketAddrV4::new(Ipv4Addr::from_bits(ip), port).into())
}

fn v6() -> impl Strategy<Value = SocketAddr> {
    any::<(u128, u16, u32)>().prop_map(|(ip, port, scope)| {
        SocketAddrV6::new(Ipv6Addr::from_bits(ip), port, 0, scope).into()
    })
}

fn pair() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    prop_oneof![(v4(), v4()), (v6(), v6())]
}

fn submission() -> impl Strategy<Value = Submission> {
    let option = proptest::sample::select(OptionKind::ALL.as_slice());
    prop_oneof![
        (conn(), any::<(u64, u32, bool, u64)>()).prop_map(|(conn, (addr, len, more, consumed))| {
            Submission::Send {
                conn,
                addr,
                len,
                more,
                consumed,
            }
        }),
        (conn(), any::<u64>()).prop_map(|(conn, total)| Submission::Consumed { conn, total }),
        (conn(), any::<(u64, u32, bool, u64)>()).prop_map(|(conn, (addr, len, more, at))| {
            Submission::SendAt {
                conn,
                addr,
                len,
                more,
                at,
            }
        }),
        (conn(), any::<u64>()).prop_map(|(conn, at)| Submission::Shutdown { conn, at }),
        conn().prop_map(|conn| Submission::ShutdownRead { conn }),
        (conn(), any::<(u16, u64, u32, bool, u64)>()).prop_map(
            |(conn, (file, offset, len, more, at))| Submission::SendFile {
                conn,
                file,
                offset,
                len,
                more,
                at
            }
        ),
        any::<u16>().prop_map(|file| Submission::ForgetFile { file }),
        conn().prop_map(|conn| Submission::LetSynGo { conn }),
        conn().prop_map(|conn| Submission::TakeError { conn }),
        (conn(), any::<bool>()).prop_map(|(conn, on)| Submission::NonBlocking { conn, on }),
        (conn(), any::<(bool, u64)>()).prop_map(|(conn, (abort, at))| Submission::Close {
            conn,
            abort,
            at
        }),
        conn().prop_map(|conn| Submission::Acquire { conn }),
        (conn(), option, any::<u64>()).prop_map(|(conn, option, value)| Submission::SetOption {
            conn,
            option,
            value
        }),
        (any::<u32>(), proptest::option::of(0..64u8))
            .prop_map(|(listener, bell)| Submission::NameListenersBell { listener, bell }),
        any::<(u32, u32, bool)>().prop_map(|(listener, total, waits)| Submission::Credit {
            listener,
            total,
            waits
        }),
        conn().prop_map(|conn| Submission::GiveBack { conn }),
        any::<(u64, u64)>().prop_map(|(token, addr)| Submission::Connect { token, addr }),
        any::<u64>().prop_map(|token| Submission::Cancel { token }),
        any::<u64>().prop_map(|token| Submission::AskLocal { token }),
        (conn(), any::<(u64, u32, u64)>()).prop_map(|(conn, (addr, len, from))| {
            Submission::Post {
                conn,
                addr,
                len,
                from,
            }
        }),
    ]
}

fn completion() -> impl Strategy<Value = Completion> {
    prop_oneof![
        (conn(), any::<(u64, u32, u64, bool)>()).prop_map(
            |(conn, (addr, len, acked, peer_closed))| Completion::Update {
                conn,
                addr,
                len,
                acked,
                peer_closed
            }
        ),
        (conn(), any::<(u64, u32, u64, bool)>()).prop_map(
            |(conn, (addr, len, acked, peer_closed))| Completion::Placed {
                conn,
                addr,
                len,
                acked,
                peer_closed
            }
        ),
        (conn(), any::<u16>()).prop_map(|(conn, errno)| Completion::Failed { conn, errno }),
        conn().prop_map(|conn| Completion::Released { conn }),
        conn().prop_map(|conn| Completion::Shut { conn }),
        conn().prop_map(|conn| Completion::ReadShut { conn }),
        (conn(), any::<bool>()).prop_map(|(conn, yours)| Completion::ErrorTaken { conn, yours }),
        (conn(), any::<bool>()).prop_map(|(conn, on)| Completion::NonBlocking { conn, on }),
        (conn(), any::<(u16, u64, Option<u32>)>()).prop_map(
            |(conn, (grant, consumed, alone_since))| Completion::Granted {
                conn,
                grant,
                consumed,
                alone_since
            }
        ),
        (conn(), any::<u16>()).prop_map(|(conn, errno)| Completion::NotGranted { conn, errno }),
        (conn(), any::<(u32, u64, u64, bool)>()).prop_map(
            |(conn, (unread, received, acked, peer_closed))| Completion::Elsewhere {
                conn,
                unread,
                received,
                acked,
                peer_closed
            }
        ),
        (conn(), any::<u32>()).prop_map(|(conn, bytes)| Completion::SendBuffer { conn, bytes }),
        (conn(), any::<u64>()).prop_map(|(conn, total)| Completion::Departed { conn, total }),
        (conn(), any::<(u16, u32)>(), pair()).prop_map(
            |(conn, (grant, listener), (peer, local))| {
                Completion::Accepted {
                    conn,
                    grant,
                    listener,
                    peer,
                    local,
                }
            }
        ),
        (any::<(u64, u16)>(), conn(), pair()).prop_map(|((token, grant), conn, (local, _))| {
            Completion::Opened {
                token,
                conn,
                grant,
                local,
            }
        }),
        (any::<u64>(), pair()).prop_map(|(token, (_, local))| Completion::Local { token, local }),
        (conn(), any::<(u64, u16)>()).prop_map(|(conn, (token, room))| Completion::Syn {
            token,
            conn,
            room
        }),
        any::<(u64, u16)>().prop_map(|(token, errno)| Completion::OpenFailed { token, errno }),
    ]
}

/// An entry that is likely to be nearly valid: a low kind and sparse bits.
fn entry() -> impl Strategy<Value = Entry> {
    let sparse = any::<(u64, u64, u64)>().prop_map(|(a, b, c)| a & b & c);
    let word = prop_oneof![
        Just(0),
        Just(1),
        any::<u64>(),
        any::<u32>().prop_map(u64::from),
        sparse
    ];
    (0..12u64, word.clone(), [word.clone(), word.clone(), word])
        .prop_map(|(kind, rest, [a, b, c])| [rest << 8 | kind, a, b, c])
}

fn round_trip<D: Descriptor + PartialEq + Debug>(descriptor: &D) {
    let (first, second) = descriptor.encode();
    assert_eq!(D::takes_two(&first), second.is_some());
    assert_eq!(D::decode(&first, second.as_ref()).as_ref(), Ok(descriptor));
}

/// Whatever decodes encodes to the same bits.
fn canonical<D: Descriptor>(first: Entry, second: Entry) {
    let second = D::takes_two(&first).then_some(second);
    if let Ok(descriptor) = D::decode(&first, second.as_ref()) {
        assert_eq!(descriptor.encode(), (first, second));
    }
}

/// Every single bit that is flipped in a descriptor makes another one or is refused.
fn every_bit_counts<D: Descriptor>(descriptor: &D) {
    let (first, second) = descriptor.encode();
    for bit in 0..256 {
        let mut flipped = first;
        flipped[bit / 64] ^= 1 << (bit % 64);
        canonical::<D>(flipped, second.unwrap_or_default());
        if let Some(mut flipped) = second {
            flipped[bit / 64] ^= 1 << (bit % 64);
            canonical::<D>(first, flipped);
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn submissions_come_back(submission in submission()) {
        round_trip(&submission);
        every_bit_counts(&submission);
    }

    #[test]
    fn completions_come_back(completion in completion()) {
        round_trip(&completion);
        every_bit_counts(&completion);
    }

    #[test]
    fn no_undefined_bit_passes(first in entry(), second in entry()) {
        canonical::<Submission>(first, second);
        canonical::<Completion>(first, second);
    }

    #[test]
    fn connect_blocks_come_back(
        (remote, local) in pair(),
        receive_buffer in any::<u32>(),
        max_segment in any::<u16>(),
        traffic_class in any::<u8>(),
        user_timeout in any::<u32>(),
        fast_open in prop::sample::select(vec![FastOpen::No, FastOpen::Hold, FastOpen::Ask]),
        at in 0..64usize,
        bit in 0..8u32,
    ) {
        let block = ConnectBlock {
            remote, local, receive_buffer, max_segment, traffic_class, user_timeout, fast_open,
        };
        let mut bytes = block.encode();
        prop_assert_eq!(ConnectBlock::decode(&bytes), Ok(block));
        bytes[at] ^= 1 << bit;
        if let Ok(other) = ConnectBlock::decode(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
        }
    }
}

/// Engines and programs of different builds have to take it alike.
#[test]
fn fast_open_is_one_of_three_words() {
    let mut block = ConnectBlock::new("192.0.2.1:80".parse().expect("an address"));
    assert_eq!(block.fast_open, FastOpen::No);
    let words = [
        (FastOpen::No, 0, 0),
        (FastOpen::Hold, 1, 7),
        (FastOpen::Ask, 2, 9),
    ];
    for (fast_open, word, since) in words {
        block.fast_open = fast_open;
        assert_eq!(block.encode()[56..], u64::to_ne_bytes(word));
        assert_eq!(fast_open.since(), since);
    }
    for value in [3_u64, 1 << 8, 1 << 63 | 1] {
        let mut bytes = block.encode();
        bytes[56..].copy_from_slice(&value.to_ne_bytes());
        let field = "Fast Open";
        let refused = Violation::UndefinedValue { field, value };
        assert_eq!(ConnectBlock::decode(&bytes), Err(refused));
    }
}

#[test]
fn violations_name_what_they_found() {
    let kind = |kind| Submission::decode(&[kind, 0, 0, 0], None);
    let direction = "submission";
    assert_eq!(kind(0), Err(Violation::UnknownKind { direction, kind: 0 }));
    assert_eq!(
        kind(200),
        Err(Violation::UnknownKind {
            direction,
            kind: 200
        })
    );
    assert_eq!(
        Submission::decode(&[3, 1, 0, 0x10], None),
        Err(Violation::UndefinedBits {
            kind: 3,
            word: 3,
            bits: 0x10
        }),
    );
    assert_eq!(
        Submission::decode(&[5 | 99 << 16, 1, 0, 0], None),
        Err(Violation::UndefinedValue {
            field: "option",
            value: 99
        }),
    );
    assert_eq!(
        Completion::decode(&[3, 1, 0, 0], None),
        Err(Violation::HalfDescriptor { kind: 3 }),
    );
    let error = Violation::UndefinedBits {
        kind: 3,
        word: 3,
        bits: 0x10,
    };
    assert_eq!(
        error.to_string(),
        "a descriptor of kind 3 has undefined bits 0x10 set in word 3",
    );
}
