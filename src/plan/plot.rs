//! Utilisation and delay against load, as figures 4-1 to 4-7 of the source draw them: lines that
//! differ by dash and mark, not by colour, so that they survive a black-and-white printer.

use super::study::{Point, Study};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

const WIDTH: u32 = 900;
const HEIGHT: u32 = 900;

/// Room above the greatest value, for the names of the lines and of what saturates: no line comes there.
const HEADROOM: f64 = 1.5;

/// Where the names of what saturates stand in that room, as shares of the greatest value: each has a row.
const ROWS: [f64; 2] = [1.1, 1.17];

/// The greatest utilisation, in percent.
const FULL: f64 = 100.0;

/// How many times the least delay the picture reaches: beyond it everything is a wall.
const TALLEST: f64 = 12.0;

/// One line of a panel.
struct Line {
    name: &'static str,
    style: Mark,
    points: Vec<(f64, f64)>,
    /// Where it leaves the picture at its upper edge, or ends while it goes on above, if it does.
    leaves: Option<(f64, f64)>,
}

impl Line {
    /// One whose values grow beyond all bounds where there are none any more, up to a load of `last`.
    fn unbounded(mut self, last: f64) -> Line {
        let end = self.points.last().copied();
        self.leaves = end.filter(|(rate, _)| *rate < last);
        self
    }

    /// Its values times `scale`, up to where it crosses `top`.
    fn cut(mut self, scale: f64, top: f64) -> Line {
        let ends = self.leaves.iter_mut();
        for (_, value) in self.points.iter_mut().chain(ends) {
            *value *= scale;
        }
        let beyond = self.points.iter().position(|(_, value)| *value > top);
        if let Some(beyond) = beyond {
            let above = self.points[beyond];
            let below = beyond.checked_sub(1).map_or(above, |at| self.points[at]);
            let share =
                ((top - below.1) / (above.1 - below.1).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
            let at = (below.0 + (above.0 - below.0) * share, top);
            self.points.truncate(beyond);
            self.points.push(at);
            self.leaves = Some(at);
        }
        self
    }
}

/// How a line is told from the others without colour.
#[derive(Clone, Copy)]
enum Mark {
    Solid,
    Dashed,
    Circles,
    Crosses,
}

/// Draws the study.
pub fn draw(study: &Study, path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
    let (above, below) = root.split_vertically(HEIGHT / 2);
    both(&[above, below], ["Utilisation", "Delay"], study)?;
    root.present().map_err(|error| anyhow!("{error}"))
}

/// Draws several, each with a name: utilisation and delay of one beside each other, one below the
/// other.
pub fn draw_all(studies: &[(String, Study)], path: &Path) -> Result<()> {
    let rows = studies.len().max(1);
    let size = (WIDTH * 2, HEIGHT / 2 * rows as u32);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
    let areas = root.split_evenly((rows, 2));
    for (areas, (name, study)) in areas.chunks(2).zip(studies) {
        let [left, right] = areas else { continue };
        let titles = [format!("Utilisation, {name}"), format!("Delay, {name}")];
        let titles = [titles[0].as_str(), titles[1].as_str()];
        both(&[left.clone(), right.clone()], titles, study)?;
    }
    root.present().map_err(|error| anyhow!("{error}"))
}

/// Utilisation and delay of one study.
fn both(areas: &[Area<'_>; 2], titles: [&str; 2], study: &Study) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| anyhow!("{error}");
    panel(
        &areas[0],
        titles[0],
        "busy share of the cores, %",
        study,
        utilisation(study),
        FULL,
    )
    .map_err(|e| failed(&e))?;
    let delays = delay(study);
    let least = delays
        .iter()
        .flat_map(|line| &line.points)
        .map(|(_, delay)| *delay)
        .fold(f64::INFINITY, f64::min);
    let tallest = delays
        .iter()
        .flat_map(|line| &line.points)
        .map(|(_, delay)| *delay)
        .filter(|delay| *delay <= least * TALLEST)
        .fold(0.0, f64::max);
    let (scale, unit) = scale(tallest);
    let scaled = delays
        .into_iter()
        .map(|line| line.cut(scale, tallest * scale))
        .collect();
    let label = format!("mean time of a request, {unit} (▲: goes on above)");
    panel(&areas[1], titles[1], &label, study, scaled, tallest * scale).map_err(|e| failed(&e))
}

fn scale(seconds: f64) -> (f64, &'static str) {
    if seconds >= 1.0 {
        (1.0, "s")
    } else if seconds >= 1e-3 {
        (1e3, "ms")
    } else {
        (1e6, "µs")
    }
}

fn line(
    study: &Study,
    name: &'static str,
    style: Mark,
    of: impl Fn(&Point) -> Option<f64>,
) -> Line {
    let points = study
        .points
        .iter()
        .filter_map(|point| of(point).map(|value| (point.rate, value)))
        .collect();
    Line {
        name,
        style,
        points,
        leaves: None,
    }
}

fn utilisation(study: &Study) -> Vec<Line> {
    let percent = |used: f64| used * 100.0;
    vec![
        line(study, "host without engine", Mark::Solid, |p| {
            p.without.as_ref().map(|p| percent(p.host_utilisation))
        }),
        line(study, "host with engine", Mark::Dashed, |p| {
            p.with.as_ref().map(|p| percent(p.host_utilisation))
        }),
        line(study, "engine", Mark::Crosses, |p| {
            p.with
                .as_ref()
                .and_then(|p| p.engine_utilisation)
                .map(percent)
        }),
    ]
}

fn delay(study: &Study) -> Vec<Line> {
    let last = study.points.last().map_or(0.0, |point| point.rate);
    let mut lines = vec![
        line(study, "without engine", Mark::Solid, |p| {
            p.without.as_ref().map(|p| p.delay)
        }),
        line(study, "everything offloaded", Mark::Dashed, |p| {
            p.with.as_ref().map(|p| p.delay)
        }),
    ];
    if study.server.classes.len() > 1 {
        lines.push(line(study, "best placement", Mark::Circles, |p| {
            p.best.as_ref().map(|best| best.prediction.delay)
        }));
    }
    lines.into_iter().map(|line| line.unbounded(last)).collect()
}

/// A number on an axis of values up to `top`, with no more digits than tell it from its neighbours; none
/// for what is in the room above.
fn label(value: f64, top: f64) -> String {
    if value > top * 1.02 {
        return String::new();
    }
    let digits = match top {
        top if top >= 10.0 => 0,
        top if top >= 1.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn panel(
    area: &Area<'_>,
    title: &str,
    y_label: &str,
    study: &Study,
    lines: Vec<Line>,
    greatest: f64,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let right = study.points.last().map_or(1.0, |point| point.rate) * 1.02;
    let greatest = greatest.max(f64::MIN_POSITIVE);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..right, 0.0..greatest * HEADROOM)?;
    chart
        .configure_mesh()
        .x_desc("requests a second")
        .x_label_formatter(&|rate| format!("{rate:.0}"))
        .y_label_formatter(&|value| label(*value, greatest))
        .y_desc(y_label)
        .light_line_style(BLACK.mix(0.06))
        .bold_line_style(BLACK.mix(0.15))
        .label_style(("sans-serif", 14))
        .draw()?;
    let mut saturations = [
        (study.saturation_without, "host saturates"),
        (study.saturation_with.0, "with engine saturates"),
    ];
    saturations.sort_by(|a, b| a.0.total_cmp(&b.0));
    for ((rate, name), row) in saturations.into_iter().zip(ROWS) {
        if rate <= right {
            let (style, top) = (BLACK.mix(0.35), greatest * row);
            let upright = PathElement::new(vec![(rate, 0.0), (rate, top)], style);
            chart.draw_series(std::iter::once(upright))?;
            // To the side where there is room for it.
            let (side, gap) = match rate < right / 2.0 {
                true => (HPos::Left, 4),
                false => (HPos::Right, -4),
            };
            let style = ("sans-serif", 12).into_font().color(&BLACK.mix(0.7));
            let style = style.pos(Pos::new(side, VPos::Center));
            let text = EmptyElement::at((rate, top)) + Text::new(name, (gap, 0), style);
            chart.draw_series(std::iter::once(text))?;
        }
    }
    for Line {
        name,
        style,
        points,
        leaves,
    } in lines
    {
        if let Some(at) = leaves {
            let mark = TriangleMarker::new(at, 7, BLACK.filled());
            chart.draw_series(std::iter::once(mark))?;
        }
        let stroke = BLACK.stroke_width(2);
        if let [alone] = points[..] {
            // A line of one point is none.
            let fill = if matches!(style, Mark::Solid) {
                BLACK
            } else {
                WHITE
            };
            let dot = EmptyElement::at(alone)
                + Circle::new((0, 0), 4, fill.filled())
                + Circle::new((0, 0), 4, BLACK.stroke_width(1));
            chart.draw_series(std::iter::once(dot))?;
        }
        match style {
            Mark::Solid => {
                chart
                    .draw_series(LineSeries::new(points, stroke))?
                    .label(name)
                    .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 28, y)], stroke));
            }
            Mark::Dashed => {
                chart
                    .draw_series(DashedLineSeries::new(points, 7, 5, stroke))?
                    .label(name)
                    .legend(move |at| {
                        EmptyElement::at(at)
                            + PathElement::new(vec![(0, 0), (11, 0)], stroke)
                            + PathElement::new(vec![(17, 0), (28, 0)], stroke)
                    });
            }
            Mark::Circles => {
                chart
                    .draw_series(points.into_iter().map(|at| Circle::new(at, 4, BLACK)))?
                    .label(name)
                    .legend(|(x, y)| Circle::new((x + 14, y), 4, BLACK));
            }
            Mark::Crosses => {
                chart
                    .draw_series(points.into_iter().map(|at| Cross::new(at, 4, BLACK)))?
                    .label(name)
                    .legend(|(x, y)| Cross::new((x + 14, y), 4, BLACK));
            }
        }
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

#[cfg(test)]
mod tests {
    use super::{Line, Mark};

    #[test]
    fn a_line_that_leaves_the_picture_is_marked_where_it_does() {
        let line = |points: &[(f64, f64)]| Line {
            name: "a line",
            style: Mark::Solid,
            points: points.to_vec(),
            leaves: None,
        };
        let cut = line(&[(1.0, 0.5), (2.0, 1.5), (3.0, 9.0)]).cut(2.0, 2.0);
        assert_eq!(cut.points, [(1.0, 1.0), (1.5, 2.0)]);
        assert_eq!(cut.leaves, Some((1.5, 2.0)));
        let whole = line(&[(1.0, 0.5), (2.0, 1.0)]).cut(2.0, 2.0);
        assert_eq!((whole.points.len(), whole.leaves), (2, None));
        // Where it ends below, because nothing more is finite, it goes on above as well.
        let ends = line(&[(1.0, 0.5), (2.0, 1.0)]).unbounded(3.0);
        assert_eq!(ends.cut(2.0, 2.0).leaves, Some((2.0, 2.0)));
        let all = line(&[(1.0, 0.5), (2.0, 1.0)]).unbounded(2.0);
        assert_eq!(all.leaves, None);
    }
}
