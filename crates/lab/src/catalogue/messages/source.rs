//! The source's tables. It says MB/s there, and means Mb/s.

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

/// Tables 4.2.1, 4.2.3, 4.2.4 and 4.2.6: without features, and with all of them.
pub fn throughput() -> Vec<Finding> {
    vec![
        finding(
            "off there, strong CPUs",
            RATE,
            "table 4.2.1",
            &[
                28.42, 54.52, 109.88, 222.49, 391.5, 674.62, 942.2, 949.21, 949.21, 949.21, 949.21,
                949.21, 949.21, 949.21, 949.21, 949.21, 949.21,
            ],
        ),
        finding(
            "off there, weak CPUs",
            RATE,
            "table 4.2.4",
            &[
                9.2, 19.67, 37.07, 74.78, 149.9, 236.2, 322.52, 381.32, 435.7, 478.07, 506.46,
                536.83, 553.07, 587.43, 586.72, 581.63, 566.82,
            ],
        ),
        finding(
            "all there, weak CPUs",
            RATE,
            "table 4.2.6",
            &[
                7.02, 13.67, 31.25, 54.85, 118.43, 214.4, 265.96, 356.54, 425.49, 479.75, 496.21,
                606.33, 938.94, 938.95, 938.95, 938.95, 938.95,
            ],
        ),
        finding(
            "all there, one of weak CPUs",
            CPU,
            "table 4.2.6",
            &[
                99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 82.3,
                59.04, 39.06, 36.78, 37.74,
            ],
        ),
    ]
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

/// Tables 4.2.7 and 4.2.8: Mb/s, messages a second by `messages`, and the CPU of one of the processors.
pub fn zeromq_throughput(messages: &str) -> Vec<Finding> {
    let (off, all) = ("table 4.2.7", "table 4.2.8");
    vec![
        finding(
            "off there",
            RATE,
            off,
            &[
                20.33, 41.33, 75.33, 149.66, 218.33, 246.0, 324.0, 393.0, 448.33, 497.33, 511.66,
                517.33, 528.0, 514.0, 522.33, 588.66, 549.66,
            ],
        ),
        finding(
            "all there",
            RATE,
            all,
            &[
                24.33, 33.0, 66.66, 132.0, 290.0, 283.33, 485.66, 590.33, 612.66, 652.33, 674.0,
                698.66, 706.33, 710.66, 734.33, 750.0, 763.0,
            ],
        ),
        finding(
            "off there",
            messages,
            off,
            &[
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
        ),
        finding(
            "all there",
            messages,
            all,
            &[
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
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::{RATE, zeromq_throughput};

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
