use super::*;
use proptest::prelude::*;

fn sack_blocks(max: usize) -> impl Strategy<Value = SackBlocks> {
    proptest::collection::vec(any::<(u32, u32)>(), 0..=max).prop_map(|blocks| {
        let mut sack = SackBlocks::EMPTY;
        for (left, right) in blocks {
            assert!(sack.push(SackBlock {
                left: SeqNumber(left),
                right: SeqNumber(right)
            }));
        }
        sack
    })
}

fn cookie() -> impl Strategy<Value = FastOpenCookie> {
    proptest::collection::vec(any::<u16>(), 0..=8)
        .prop_map(|words| {
            words
                .iter()
                .flat_map(|word| word.to_be_bytes())
                .collect::<Vec<_>>()
        })
        .prop_filter_map("two bytes are no cookie", |bytes| {
            FastOpenCookie::new(&bytes)
        })
}

prop_compose! {
    /// Options with at most two SACK blocks, which always fit, or with a cookie instead.
    fn options()(
        mss: Option<u16>,
        window_scale in proptest::option::of(0..=MAX_WINDOW_SCALE),
        sack_permitted: bool,
        timestamps in proptest::option::of(any::<(u32, u32)>()),
        sack in sack_blocks(2),
        fast_open in proptest::option::of(cookie()),
    ) -> Options {
        let timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
        let sack = if fast_open.is_some() { SackBlocks::EMPTY } else { sack };
        Options { mss, window_scale, sack_permitted, timestamps, fast_open, sack }
    }
}

prop_compose! {
    fn repr()(
        src_port: u16, dst_port: u16, seq: u32, ack: Option<u32>, flags: u8, window: u16,
        options in options(),
    ) -> Repr {
        Repr {
            src_port,
            dst_port,
            seq: SeqNumber(seq),
            ack: ack.map(SeqNumber),
            flags: Flags::from_bits(flags).with(Flags::ACK, ack.is_some()),
            window,
            options,
        }
    }
}

proptest! {
    #[test]
    fn what_is_emitted_parses_back(repr in repr(), payload in proptest::collection::vec(any::<u8>(), 0..9)) {
        let mut buffer = [0xee; MAX_HEADER_LEN + 9];
        let len = repr.emit(&mut buffer);
        prop_assert_eq!(len, repr.header_len());
        buffer[len..len + payload.len()].copy_from_slice(&payload);
        let header = Header::new(&buffer[..len + payload.len()]).unwrap();
        prop_assert_eq!(header.repr(), repr);
        prop_assert_eq!(header.payload(), &payload[..]);
        prop_assert_eq!(header.checksum(), 0);
        for short in 0..len {
            prop_assert_eq!(Header::new(&buffer[..short]).unwrap_err(), Error::Truncated);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(header) = Header::new(&bytes) {
            let repr = header.repr();
            prop_assert!(header.payload().len() <= bytes.len() - HEADER_LEN);
            prop_assert!(repr.options.window_scale.unwrap_or(0) <= MAX_WINDOW_SCALE);
        }
    }

    #[test]
    fn any_options_are_read_and_emit_within_bounds(
        bytes in proptest::collection::vec(any::<u8>(), 0..=MAX_OPTIONS_LEN),
    ) {
        let options = Options::parse(&bytes);
        prop_assert!(options.len() <= MAX_OPTIONS_LEN);
        let mut buffer = [0; MAX_OPTIONS_LEN];
        prop_assert_eq!(options.emit(&mut buffer), options.len());
        // All but the SACK blocks always fits.
        let again = Options::parse(&buffer[..options.len()]);
        prop_assert_eq!(Options { sack: options.sack, ..again }, options);
    }
}

//~ RFC 9293 MUST-68, MUST-69
#[test]
fn a_header_as_linux_sends_it() {
    // SYN, MSS 1460, SACK permitted, timestamps, window scale 7.
    let bytes = [
        0x9c, 0x40, 0x00, 0x50, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0x12,
        0x34, 0, 0, 2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0xaa, 0xbb, 0xcc, 0xdd, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    let header = Header::new(&bytes).unwrap();
    let repr = header.repr();
    assert_eq!(
        repr,
        Repr {
            src_port: 40_000,
            dst_port: 80,
            seq: SeqNumber(0x0102_0304),
            ack: None,
            flags: Flags::SYN,
            window: 64_240,
            options: Options {
                mss: Some(1460),
                window_scale: Some(7),
                sack_permitted: true,
                timestamps: Some(Timestamps {
                    value: 0xaabb_ccdd,
                    echo: 0
                }),
                ..Options::NONE
            },
        }
    );
    assert_eq!(header.checksum(), 0x1234);
    let mut emitted = [0; MAX_HEADER_LEN];
    let len = repr.emit(&mut emitted);
    emitted[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&[0x12, 0x34]);
    assert_eq!(emitted[..len], bytes);
}

//~ RFC 9293 MUST-4, MUST-5, MUST-6, MUST-7, MUST-64
#[test]
fn bad_options_lose_only_themselves() {
    let mss = Options {
        mss: Some(536),
        ..Options::NONE
    };
    let cases: [(&[u8], Options, &str); 9] = [
        (&[], Options::NONE, "none"),
        (
            &[0, 2, 4, 2, 24],
            Options::NONE,
            "after the end of the list",
        ),
        (&[253, 4, 1, 2, 2, 4, 2, 24], mss, "after an unknown option"),
        (
            &[2, 3, 9, 2, 4, 2, 24],
            mss,
            "after one of the wrong length",
        ),
        (&[2, 4, 2, 24, 3, 0, 3, 3], mss, "before a length of zero"),
        (&[2, 4, 2, 24, 3, 1, 3, 3], mss, "before a length of one"),
        (
            &[2, 4, 2, 24, 8, 10, 0, 0],
            mss,
            "before one that is cut off",
        ),
        (&[2, 4, 2, 24, 8], mss, "before one without a length"),
        (
            &[5, 9, 0, 0, 0, 0, 0, 0, 0, 2, 4, 2, 24],
            mss,
            "after SACK of half a block",
        ),
    ];
    for (bytes, expected, what) in cases {
        assert_eq!(Options::parse(bytes), expected, "{what}");
    }
    let scale = Options::parse(&[3, 3, 200]).window_scale;
    assert_eq!(scale, Some(MAX_WINDOW_SCALE));
}

//~ RFC 2018 §3
#[test]
fn sack_blocks_give_way_to_other_options() {
    let mut sack = SackBlocks::EMPTY;
    for left in 0..5 {
        let block = SackBlock {
            left: SeqNumber(left),
            right: SeqNumber(left + 1),
        };
        assert_eq!(sack.push(block), left < 4);
    }
    let alone = Options {
        sack,
        ..Options::NONE
    };
    assert_eq!(alone.len(), 36);
    let beside_timestamps = Options {
        timestamps: Some(Timestamps::default()),
        ..alone
    };
    let mut buffer = [0; MAX_OPTIONS_LEN];
    assert_eq!(beside_timestamps.emit(&mut buffer), 40);
    assert_eq!(
        Options::parse(&buffer).sack.as_slice(),
        &sack.as_slice()[..3]
    );
}

#[test]
fn data_offsets_within_the_header_are_refused() {
    let mut bytes = [0; 24];
    bytes[12] = 0x40;
    assert_eq!(Header::new(&bytes).unwrap_err(), Error::DataOffset);
    bytes[12] = 0x70;
    assert_eq!(Header::new(&bytes).unwrap_err(), Error::Truncated);
}

#[test]
fn flags_print_as_tcpdump_does() {
    assert_eq!(std::format!("{}", Flags::SYN | Flags::ACK), "S.");
    assert_eq!(std::format!("{}", Flags::NONE), "-");
    let mut flags = Flags::FIN;
    flags |= Flags::ACK;
    assert!(flags.contains(Flags::FIN) && flags.intersects(Flags::ACK | Flags::RST));
    assert!(!flags.contains(Flags::FIN | Flags::RST));
}

#[test]
fn syn_and_fin_occupy_a_number_each() {
    let repr = Repr {
        src_port: 1,
        dst_port: 2,
        seq: SeqNumber(0),
        ack: None,
        flags: Flags::SYN | Flags::FIN,
        window: 0,
        options: Options::NONE,
    };
    assert_eq!(repr.sequence_len(10), 12);
    assert_eq!(
        Repr {
            flags: Flags::PSH,
            ..repr
        }
        .sequence_len(10),
        10
    );
}
