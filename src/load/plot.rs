//! The run as a picture: rates and latencies over the time, and latencies by their share; told
//! apart by dash, not by colour.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::outcome::{Outcome, Second};
use super::progress::short;

const SIZE: (u32, u32) = (900, 1200);
/// Sizes of titles, and of everything else.
const TITLE: u32 = 20;
const TEXT: u32 = 15;
/// Of the greatest value, the axis shows so much: above it is room for the names of the lines.
const HEADROOM: f64 = 1.4;

/// A line: its name, whether it is dashed, and what it shows.
type Line = (&'static str, bool, fn(&Second) -> f64);
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// Draws it; `of` says what was loaded.
pub fn draw(outcome: &Outcome, of: &str, path: &Path) -> Result<()> {
    if outcome.seconds.is_empty() {
        bail!("the run was too short for a picture");
    }
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    let draw = || -> Drawn<'_> {
        root.fill(&WHITE)?;
        let root = root.titled(of, ("sans-serif", TITLE))?;
        let panels = root.split_evenly((3, 1));
        let rates: [Line; 2] = [
            ("requests", false, |second| second.requests_rate),
            ("connections", true, |second| second.connections_rate),
        ];
        let axis = 0.0..greatest(&outcome.seconds, &rates) * HEADROOM;
        let names = ("Answered", "Rate (1/s)");
        over_time(&panels[0], names, &outcome.seconds, &rates, axis)?;
        let latencies: [Line; 2] = [
            ("99 %", true, |second| second.latency[2] / 1e3),
            ("median", false, |second| second.latency[1] / 1e3),
        ];
        let medians = outcome.seconds.iter().map(|second| second.latency[1]);
        let medians = medians.filter(|median| *median > 0.0);
        let axis = decades(
            medians.fold(f64::MAX, f64::min) / 1e3,
            greatest(&outcome.seconds, &latencies) * HEADROOM,
        );
        let names = ("Latency, from when a request was due", "Latency (ms)");
        over_time(
            &panels[1],
            names,
            &outcome.seconds,
            &latencies,
            axis.log_scale(),
        )?;
        by_share(&panels[2], outcome)?;
        root.present()
    };
    draw().map_err(|error| anyhow!("{error}"))
}

/// The greatest value of some lines.
fn greatest(seconds: &[Second], lines: &[Line]) -> f64 {
    lines
        .iter()
        .flat_map(|(_, _, of)| seconds.iter().map(of))
        .fold(f64::MIN_POSITIVE, f64::max)
}

/// Whole decades around two times in milliseconds; those below a microsecond are not told apart.
fn decades(least: f64, most: f64) -> Range<f64> {
    let least = least.clamp(1e-3, 1e6).log10().floor();
    let most = most.log10().ceil().max(least + 1.0);
    10_f64.powf(least)..10_f64.powf(most)
}

fn over_time<'a, Y>(
    area: &Area<'a>,
    (title, unit): (&str, &str),
    seconds: &[Second],
    lines: &[Line],
    vertical: Y,
) -> Drawn<'a>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let right = seconds.last().map_or(1.0, |second| second.reached.seconds);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", TEXT + 2))
        .margin(12)
        .margin_right(30)
        .x_label_area_size(46)
        .y_label_area_size(84)
        .build_cartesian_2d(0.0..right, vertical)?;
    chart
        .configure_mesh()
        .x_desc("Time (s)")
        .y_desc(unit)
        .x_label_formatter(&|seconds| figure(*seconds))
        .y_label_formatter(&|value| figure(*value))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.15))
        .label_style(("sans-serif", TEXT))
        .draw()?;
    let is_latency = unit.contains("ms");
    for (name, dashed, of) in lines {
        let points = seconds
            .iter()
            // A second without a response has no latency, and a logarithmic axis no zero.
            .filter(|second| of(second) > 0.0 || !is_latency)
            .map(|second| (second.reached.seconds, of(second)));
        let stroke = BLACK.stroke_width(2);
        let drawn = if *dashed {
            chart.draw_series(DashedLineSeries::new(points.clone(), 7, 5, stroke))?
        } else {
            chart.draw_series(LineSeries::new(points.clone(), stroke))?
        };
        let dashed = *dashed;
        drawn.label(*name).legend(move |at| {
            let gap = if dashed { 11 } else { 14 };
            EmptyElement::at(at)
                + PathElement::new(vec![(0, 0), (gap, 0)], stroke)
                + PathElement::new(vec![(28 - gap, 0), (28, 0)], stroke)
        });
        // Each second is a point: a run of a few is more than a line.
        let dots = points.map(|point| {
            let fill = if dashed { WHITE } else { BLACK };
            EmptyElement::at(point)
                + Circle::new((0, 0), 3, fill.filled())
                + Circle::new((0, 0), 3, BLACK.stroke_width(1))
        });
        if seconds.len() <= DOTS {
            chart.draw_series(dots)?;
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.4))
        .legend_area_size(36)
        .label_font(("sans-serif", TEXT))
        .draw()
}

/// Seconds that are marked one by one, at most.
const DOTS: usize = 60;

/// Nines that are shown at most: 99.999 %.
const NINES: i32 = 5;

/// Which share of the requests was answered within which time. The axis of the shares is that of
/// their rest: a nine more is a step to the right.
fn by_share<'a>(area: &Area<'a>, outcome: &Outcome) -> Drawn<'a> {
    let latency = &outcome.latency;
    let count = latency.len().max(1) as f64;
    // Beyond one request in all there is nothing to tell.
    let right = count.clamp(10.0, 10_f64.powi(NINES));
    let steps = 400;
    let points: Vec<(f64, f64)> = (0..=steps)
        .map(|step| {
            let rest = right.powf(f64::from(step) / f64::from(steps));
            let value = latency.value_at_quantile(1.0 - 1.0 / rest);
            (rest, (value as f64 / 1e3).max(1e-3))
        })
        .collect();
    let least = points.first().map_or(1e-3, |(_, ms)| *ms);
    let axis = decades(least, points.iter().map(|(_, ms)| *ms).fold(1e-3, f64::max));
    let mut chart = ChartBuilder::on(area)
        .caption(
            "Latency of all requests, by their share",
            ("sans-serif", TEXT + 2),
        )
        .margin(12)
        .margin_right(30)
        .x_label_area_size(46)
        .y_label_area_size(84)
        .build_cartesian_2d((1.0..right).log_scale(), axis.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("Requests answered within (%)")
        .y_desc("Latency (ms)")
        .x_label_formatter(&|rest| share(*rest))
        .y_label_formatter(&|value| figure(*value))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.15))
        .label_style(("sans-serif", TEXT))
        .draw()?;
    chart.draw_series(LineSeries::new(points, BLACK.stroke_width(2)))?;
    Ok(())
}

/// 10 stands for 90 %, 100 for 99 %.
fn share(rest: f64) -> String {
    let nines = rest.log10();
    let digits = (nines - 2.0).ceil().max(0.0) as usize;
    format!("{:.digits$}", 100.0 * (1.0 - 1.0 / rest))
}

/// A number at an axis.
fn figure(value: f64) -> String {
    if value >= 1e4 {
        return short(value);
    }
    // Without the noise of binary fractions, and without zeros at the end.
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_say_what_people_read() {
        assert_eq!(figure(0.25), "0.25");
        assert_eq!(figure(0.1 + 0.2), "0.3");
        assert_eq!(figure(1500.0), "1500");
        assert_eq!(figure(50_000.0), "50.0k");
        assert_eq!(decades(0.017, 14.0), 0.01..100.0);
        assert_eq!(decades(0.0, 0.0), 0.001..0.01);
        assert_eq!(share(1.0), "0");
        assert_eq!(share(10.0), "90");
        assert_eq!(share(100.0), "99");
        assert_eq!(share(1000.0), "99.9");
        assert_eq!(share(100_000.0), "99.999");
    }
}
