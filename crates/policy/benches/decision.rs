//! How long a decision takes: `cargo bench -p outboard-policy`.

use policy::{Band, MOST_RULES, Policy, Rule};
use std::hint::black_box;
use std::time::Instant;

const CALLS: u32 = 10_000_000;

fn per_call(name: &str, mut call: impl FnMut(u64)) {
    // Any size, and no pattern that a processor could learn.
    let mut bits = 1_u64;
    let start = Instant::now();
    for _ in 0..CALLS {
        bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        call(bits >> (32 + (bits & 15)));
    }
    let each = start.elapsed().as_nanos() as f64 / f64::from(CALLS);
    println!("{name}: {each:.1} ns a decision");
}

fn main() {
    for count in [8, MOST_RULES] {
        let rule = |at: usize| Rule {
            up_to_bytes: 1 << (at * 32 / count),
            band: if at.is_multiple_of(2) {
                Band::ALWAYS
            } else {
                Band::NEVER
            },
        };
        let rules = (1..=count).map(rule).collect();
        let policy = Policy::new(Band::ALWAYS, rules, Band::NEVER).expect("consistent");
        per_call(&format!("who reads a file, {count} rules"), |bytes| {
            black_box(policy.offload(black_box(bytes), black_box(500.0)));
        });
        per_call("whose connections", |rate| {
            black_box(policy.offload_connections(black_box(rate as f64)));
        });
    }
}
