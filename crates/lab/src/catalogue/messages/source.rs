//! The source's tables. It says MB/s there, and means Mb/s.

use super::direction::sending;
use super::{CPU, MTU, MTUS, ONE_WAY, RATE, SIZE, SIZES};
use crate::experiment::declaration::{Citation, Finding};

/// A column: for every size a figure.
type Column = [f64; 17];

fn finding(name: &str, measure: &str, place: &str, column: &Column) -> Finding {
    Finding {
        name: name.into(),
        axis: SIZE.into(),
        measure: measure.into(),
        points: SIZES.into_iter().zip(column.iter().copied()).collect(),
        at: vec![(MTU.into(), MTUS[0].to_string())],
        citation: Citation {
            document: "002".into(),
            place: place.into(),
        },
    }
}

/// Streams, which the one that has the features sends.
fn of_senders(mut findings: Vec<Finding>) -> Vec<Finding> {
    for finding in &mut findings {
        finding.at = sending().to_vec();
    }
    findings
}

/// Table 4.1.1.
pub fn latency() -> Vec<Finding> {
    let column = |name, column| finding(name, ONE_WAY, "table 4.1.1", column);
    vec![
        column(
            "off there",
            &[
                29.96, 30.4, 30.21, 30.13, 30.39, 30.63, 32.26, 32.85, 34.93, 38.28, 46.89, 67.15,
                88.0, 142.97, 246.49, 442.11, 859.55,
            ],
        ),
        column(
            "all there",
            &[
                32.21, 32.21, 32.18, 32.19, 32.39, 32.73, 33.28, 33.84, 36.03, 39.67, 48.53, 69.79,
                88.79, 143.1, 226.0, 385.59, 727.87,
            ],
        ),
    ]
}

/// Tables of streams over plain TCP: what was on and on which CPUs, where it stands, Mb/s, and CPU in percent of one
/// processor, which may be more than a hundred.
const STREAMS: [(&str, &str, Column, Column); 6] = [
    (
        "off there, strong CPUs",
        "table 4.2.1",
        [
            28.42, 54.52, 109.88, 222.49, 391.5, 674.62, 942.2, 949.21, 949.21, 949.21, 949.21,
            949.21, 949.21, 949.21, 949.21, 949.21, 949.21,
        ],
        [
            124.56, 117.76, 122.56, 138.4, 126.48, 123.36, 94.4, 51.52, 37.04, 34.64, 29.04, 33.68,
            26.56, 34.16, 13.52, 20.64, 23.6,
        ],
    ),
    (
        "checksums there, strong CPUs",
        "table 4.2.2",
        [
            29.25, 58.14, 95.97, 188.15, 360.35, 640.75, 949.18, 949.21, 949.21, 949.21, 949.21,
            949.21, 949.21, 949.21, 949.21, 949.21, 949.21,
        ],
        [
            116.24, 110.08, 108.4, 134.0, 124.48, 127.76, 76.56, 71.52, 44.72, 14.64, 30.08, 20.88,
            23.2, 23.28, 32.32, 13.04, 21.44,
        ],
    ),
    (
        "all there, strong CPUs",
        "table 4.2.3",
        [
            27.34, 54.98, 90.36, 214.14, 386.81, 665.38, 949.19, 949.21, 949.21, 949.21, 949.21,
            949.21, 949.21, 949.21, 949.21, 949.21, 949.21,
        ],
        [
            115.2, 107.84, 119.28, 116.48, 120.56, 114.96, 93.76, 31.68, 28.08, 19.36, 10.88,
            11.44, 11.04, 15.68, 16.56, 13.84, 11.44,
        ],
    ),
    (
        "off there, weak CPUs",
        "table 4.2.4",
        [
            9.2, 19.67, 37.07, 74.78, 149.9, 236.2, 322.52, 381.32, 435.7, 478.07, 506.46, 536.83,
            553.07, 587.43, 586.72, 581.63, 566.82,
        ],
        [99.9; 17],
    ),
    (
        "checksums there, weak CPUs",
        "table 4.2.5",
        [
            10.65, 20.35, 37.34, 77.43, 152.69, 227.16, 289.92, 378.46, 441.63, 476.06, 498.41,
            542.86, 553.09, 587.3, 575.41, 570.02, 556.88,
        ],
        [100.0; 17],
    ),
    (
        "all there, weak CPUs",
        "table 4.2.6",
        [
            7.02, 13.67, 31.25, 54.85, 118.43, 214.4, 265.96, 356.54, 425.49, 479.75, 496.21,
            606.33, 938.94, 938.95, 938.95, 938.95, 938.95,
        ],
        [
            99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 82.3, 59.04,
            39.06, 36.78, 37.74,
        ],
    ),
];

/// Tables 4.2.1 to 4.2.6.
pub fn throughput() -> Vec<Finding> {
    let each = STREAMS.iter().flat_map(|(name, place, rates, loads)| {
        let load = format!("{name}, of one");
        [
            finding(name, RATE, place, rates),
            finding(&load, CPU, place, loads),
        ]
    });
    of_senders(each.collect())
}

/// Table 4.1.2.
pub fn zeromq_latency() -> Vec<Finding> {
    let column = |name, column| finding(name, ONE_WAY, "table 4.1.2", column);
    vec![
        column(
            "off there",
            &[
                60.32, 62.22, 59.32, 64.78, 60.29, 60.28, 65.36, 65.09, 70.45, 73.35, 76.15, 95.15,
                123.95, 185.55, 300.23, 537.11, 1_012.7,
            ],
        ),
        column(
            "all there",
            &[
                61.26, 60.88, 63.19, 63.66, 61.43, 61.19, 64.77, 68.84, 68.48, 73.36, 75.24, 94.73,
                119.18, 170.51, 247.81, 399.34, 715.33,
            ],
        ),
    ]
}

/// Tables with ZeroMQ: what was on, where it stands, Mb/s, messages a second, and CPU as in [`STREAMS`].
const ZEROMQ: [(&str, &str, Column, Column, Column); 2] = [
    (
        "off there",
        "table 4.2.7",
        [
            20.33, 41.33, 75.33, 149.66, 218.33, 246.0, 324.0, 393.0, 448.33, 497.33, 511.66,
            517.33, 528.0, 514.0, 522.33, 588.66, 549.66,
        ],
        [
            2_606_934.0,
            2_614_850.0,
            2_374_849.66,
            2_341_569.67,
            1_707_506.33,
            963_705.33,
            634_318.0,
            409_307.0,
            219_136.33,
            121_506.33,
            62_526.66,
            31_605.33,
            16_128.0,
            7_846.0,
            3_990.33,
            2_247.66,
            1_049.0,
        ],
        [
            84.9, 80.46, 79.5, 77.98, 85.54, 83.47, 97.47, 94.06, 94.88, 104.8, 104.12, 108.48,
            97.96, 79.02, 70.64, 101.93, 97.48,
        ],
    ),
    (
        "all there",
        "table 4.2.8",
        [
            24.33, 33.0, 66.66, 132.0, 290.0, 283.33, 485.66, 590.33, 612.66, 652.33, 674.0,
            698.66, 706.33, 710.66, 734.33, 750.0, 763.0,
        ],
        [
            3_098_845.0,
            2_082_542.0,
            2_091_455.66,
            2_068_998.33,
            2_267_505.66,
            1_108_615.33,
            949_367.66,
            577_023.0,
            299_433.66,
            159_329.0,
            82_327.0,
            42_666.33,
            21_569.0,
            10_850.33,
            5_605.66,
            2_862.33,
            1_457.0,
        ],
        [
            53.94, 72.69, 108.67, 73.02, 82.18, 99.49, 120.6, 123.54, 114.82, 109.89, 109.08,
            108.6, 112.48, 114.4, 106.89, 104.5, 102.7,
        ],
    ),
];

/// Tables 4.2.7 and 4.2.8, with messages a second as `messages`.
pub fn zeromq_throughput(messages: &str) -> Vec<Finding> {
    let each = ZEROMQ
        .iter()
        .flat_map(|(name, place, rates, counts, loads)| {
            let load = format!("{name}, of one CPU");
            [
                finding(name, RATE, place, rates),
                finding(name, messages, place, counts),
                finding(&load, CPU, place, loads),
            ]
        });
    of_senders(each.collect())
}

#[cfg(test)]
mod tests {
    use super::{CPU, RATE, throughput, zeromq_throughput};

    #[test]
    fn every_table_of_streams_has_its_rates_and_its_cpu() {
        let mut all = throughput();
        all.extend(zeromq_throughput("messages"));
        for table in 1..=8 {
            let place = format!("table 4.2.{table}");
            for measure in [RATE, CPU] {
                let is_meant =
                    |f: &&super::Finding| f.measure == measure && f.citation.place == place;
                let found: Vec<_> = all.iter().filter(is_meant).collect();
                assert_eq!(found.len(), 1, "{place}, {measure}");
                assert_eq!(found[0].points.len(), 17, "{place}, {measure}");
            }
        }
    }

    /// Its own columns agree with each other: messages a second, times their size, are its Mb/s.
    #[test]
    fn the_sources_rates_are_its_messages() {
        let found = zeromq_throughput("messages");
        for place in ["table 4.2.7", "table 4.2.8"] {
            let column = |measure: &str| {
                let is_meant =
                    |f: &&super::Finding| f.measure == measure && f.citation.place == place;
                found.iter().find(is_meant).unwrap().points.clone()
            };
            for ((size, rate), (_, messages)) in column(RATE).into_iter().zip(column("messages")) {
                let ratio = rate / (8.0 * size * messages / 1e6);
                // But for a line that it has rounded, or mistyped.
                assert!((0.93..1.07).contains(&ratio), "{place}, {size}: {ratio}");
            }
        }
    }
}
