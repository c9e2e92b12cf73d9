//! What holds of any policy.

use policy::{Band, Policy, Rule};
use proptest::prelude::*;

/// Rates of which no bit is lost when they are read: the last one of a long fraction can be.
fn rates() -> impl Strategy<Value = f64> {
    (1u32..8_000_000).prop_map(|eighths| f64::from(eighths) / 8.0)
}

fn bands() -> impl Strategy<Value = Band> {
    let from = prop::option::of(prop_oneof![Just(0.0), rates()]);
    (from, prop::option::of(rates())).prop_map(|(from, width)| Band {
        offload_from_rate: from,
        offload_below_rate: width.map(|width| from.unwrap_or(0.0) + width),
    })
}

fn policies() -> impl Strategy<Value = Policy> {
    let size = prop_oneof![0u64..100_000, any::<u64>(), Just(u64::MAX)];
    let rules = prop::collection::btree_map(size, bands(), 0..32);
    (bands(), rules, bands()).prop_map(|(connections, rules, above)| {
        let rule = |(up_to_bytes, band)| Rule { up_to_bytes, band };
        let rules = rules.into_iter().map(rule).collect();
        Policy::new(connections, rules, above).expect("consistent")
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(policy in policies()) {
        let text = policy.to_text().expect("written");
        prop_assert_eq!(Policy::parse(&text), Ok(policy));
    }

    /// The first rule that is for a size decides, and what is above all of them else.
    #[test]
    fn one_band_decides(policy in policies(), bytes in any::<u64>(), rate in 0.0f64..2e6) {
        let of_size = policy.rules().iter().rev().fold(policy.above(), |found, rule| {
            if bytes <= rule.up_to_bytes { rule.band } else { found }
        });
        prop_assert_eq!(policy.offload(bytes, rate), of_size.holds(rate));
        prop_assert_eq!(policy.offload_connections(rate), policy.connections().holds(rate));
    }

    /// The ranges say the same as the decision: at their edges, beside them, and anywhere.
    #[test]
    fn ranges_are_the_decisions(
        policy in policies(),
        others in prop::collection::vec(any::<u64>(), 0..20),
        rate in 0.0f64..2e6,
    ) {
        let ranges = policy.sizes(rate);
        prop_assert!(ranges.windows(2).all(|two| two[0].1 < two[1].0 - 1), "others in between");
        let edges = policy.rules().iter().map(|rule| rule.up_to_bytes);
        let near = edges.flat_map(|at| [at.saturating_sub(1), at, at.saturating_add(1)]);
        for bytes in near.chain(others).chain([0, u64::MAX]) {
            let within = ranges.iter().any(|(first, last)| (*first..=*last).contains(&bytes));
            prop_assert_eq!(within, policy.offload(bytes, rate), "{} bytes", bytes);
            let (first, last) = policy.sizes_like(bytes, rate);
            prop_assert!((first..=last).contains(&bytes));
            prop_assert!([first, last].iter().all(|edge| policy.offload(*edge, rate) == within));
            let beyond = [first.checked_sub(1), last.checked_add(1)];
            prop_assert!(beyond.iter().flatten().all(|other| policy.offload(*other, rate) != within));
        }
    }

    #[test]
    fn a_band_has_two_ends(band in bands(), low in 0.0f64..2e6, high in 0.0f64..2e6) {
        let (low, high) = (low.min(high), low.max(high));
        if band.holds(low) && band.holds(high) {
            prop_assert!(band.holds(f64::midpoint(low, high)));
        }
        prop_assert!(!band.holds(f64::NAN), "what is no rate is no load");
    }

    /// However narrow a band is.
    #[test]
    fn a_band_meets_what_holds_one_of_its_loads(band in bands(), low in 0.0f64..2e6, high in 0.0f64..2e6) {
        let (low, high) = (low.min(high), low.max(high));
        let from = band.offload_from_rate.map(|from| from.clamp(low, high));
        let held = [Some(low), Some(high), from].into_iter().flatten().any(|rate| band.holds(rate));
        prop_assert_eq!(band.meets(low, high), held);
        prop_assert!(!band.meets(low, f64::NAN) && !Band::NEVER.meets(0.0, f64::INFINITY));
    }

    #[test]
    fn no_text_is_too_odd(text in any::<String>(), at in 0usize..400, by in any::<char>()) {
        let _ = Policy::parse(&text);
        let policy = Policy::new(Band::ALWAYS, vec![], Band::NEVER).expect("consistent");
        let mut chars: Vec<char> = policy.to_text().expect("written").chars().collect();
        if let Some(one) = chars.get_mut(at) {
            *one = by;
        }
        let _ = Policy::parse(&chars.into_iter().collect::<String>());
    }
}
