//! The run as a picture: rates and latencies over the time, told apart by dash, not by colour.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::outcome::{Outcome, Second};

const SIZE: (u32, u32) = (900, 900);

/// A line: its name, whether it is dashed, and what it shows.
type Line = (&'static str, bool, fn(&Second) -> f64);

/// Draws it.
pub fn draw(outcome: &Outcome, path: &Path) -> Result<()> {
    if outcome.seconds.is_empty() {
        bail!("the run was too short for a picture");
    }
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    let draw = || -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        root.fill(&WHITE)?;
        let (above, below) = root.split_vertically(SIZE.1 / 2);
        let rates: [Line; 2] = [
            ("requests", false, |second| second.requests_rate),
            ("connections", true, |second| second.connections_rate),
        ];
        panel(&above, "Rates", "a second", &outcome.seconds, &rates)?;
        let latencies: [Line; 2] = [
            ("99 %", true, |second| second.latency[2] / 1e3),
            ("median", false, |second| second.latency[1] / 1e3),
        ];
        panel(
            &below,
            "Latency from when a request was due",
            "ms",
            &outcome.seconds,
            &latencies,
        )?;
        root.present()
    };
    draw().map_err(|error| anyhow!("{error}"))
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    unit: &str,
    seconds: &[Second],
    lines: &[Line],
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let right = seconds.last().map_or(1.0, |second| second.reached.seconds);
    let top = lines
        .iter()
        .flat_map(|(_, _, of)| seconds.iter().map(of))
        .fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..right, 0.0..top * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .y_desc(unit)
        .light_line_style(BLACK.mix(0.06))
        .bold_line_style(BLACK.mix(0.15))
        .label_style(("sans-serif", 14))
        .draw()?;
    for (name, dashed, of) in lines {
        let points = seconds
            .iter()
            .map(|second| (second.reached.seconds, of(second)));
        let stroke = BLACK.stroke_width(2);
        let drawn = if *dashed {
            chart.draw_series(DashedLineSeries::new(points, 7, 5, stroke))?
        } else {
            chart.draw_series(LineSeries::new(points, stroke))?
        };
        let dashed = *dashed;
        drawn.label(*name).legend(move |at| {
            let gap = if dashed { 11 } else { 14 };
            EmptyElement::at(at)
                + PathElement::new(vec![(0, 0), (gap, 0)], stroke)
                + PathElement::new(vec![(28 - gap, 0), (28, 0)], stroke)
        });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.4))
        .legend_area_size(36)
        .label_font(("sans-serif", 14))
        .draw()
}
