//! The same settings and texts for the program in the driver.

use netdev::responder::{COUNTER_SLOTS, FixedObject, Setup};

use super::counters::{COUNTERS, Counts};
use super::settings::{CloseStyle, Settings};
use super::tables::Tables;

const _: () = assert!(COUNTERS <= COUNTER_SLOTS);

/// What the program is to be told.
pub fn setup(settings: &Settings, tables: &Tables) -> Setup {
    let by_family = |of: fn(&Settings, bool) -> u16| [of(settings, false), of(settings, true)];
    Setup {
        key: settings.key,
        ports: settings.ports.clone(),
        max_body: settings.max_body(),
        default_size: settings.default_size,
        segment: by_family(Settings::segment),
        announced: by_family(Settings::announced),
        broadcasts: settings.broadcasts.clone(),
        loopback: settings.loopback,
        strict: settings.strict,
        reset: settings.close == CloseStyle::Reset,
        partial_checksums: settings.partial_checksums,
        lines: (0..600).map(|status| tables.line(status).into()).collect(),
        bodies: tables.bodies().to_vec(),
        objects: tables
            .objects()
            .iter()
            .map(|object| FixedObject {
                path: object.path.clone(),
                status: object.status,
                fields: object.fields.clone(),
                body: object.body as u32,
            })
            .collect(),
    }
}

/// What the program counted: its counters have the numbers of [`Counter`](super::counters::Counter).
pub fn counts(slots: &[u64; COUNTER_SLOTS]) -> Counts {
    Counts(std::array::from_fn(|index| slots[index]))
}
