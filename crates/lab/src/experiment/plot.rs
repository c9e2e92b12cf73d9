//! Lines over an axis, drawn for a black-and-white printer too: they differ by dash and mark, not by colour.

use super::declaration::{Axis, Experiment, Picture};
use super::marks::{MARKS, at_axis, dashes, legend_line, shape};
use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

const SIZE: (u32, u32) = (900, 520);

const TITLE: u32 = 20;

const TEXT: u32 = 15;

/// Room above the greatest value, for the names of the lines, at least.
const HEADROOM: f64 = 1.35;

/// Numbers along the axis to the right, at most. Words have a place each, and none between.
const NUMBERS: usize = 10;

/// What the name of a line takes of the height that is drawn in, and what all of them take besides.
const NAME: f64 = 0.045;

const AROUND_NAMES: f64 = 0.055;

/// One line: what it is called, and its points with the ends of their intervals.
pub(super) struct Line {
    pub name: String,
    pub points: Vec<Point>,
    pub style: Style,
    /// Which of all lines of a report it is: it has the same mark and dash in every picture. Without, the next.
    pub number: Option<usize>,
}

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Marks, joined.
    Measured,
    /// The same in grey.
    Source,
    /// Marks alone.
    Marks,
    /// A line alone.
    Model,
}

#[derive(Clone, Copy)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
}

/// Draws lines over an axis; `None` if there is nothing to draw.
pub(super) fn draw_lines(
    experiment: &Experiment,
    picture: &Picture,
    axis: &Axis,
    lines: &[Line],
) -> Result<Option<String>> {
    let all = || lines.iter().flat_map(|line| &line.points);
    if all().next().is_none() {
        return Ok(None);
    }
    let across = range(all().map(|point| point.x), picture.log_x, 1.0);
    let across = if axis.levels.iter().all(|level| level.value.is_none()) {
        -0.5..axis.levels.len() as f64 - 0.5
    } else {
        across
    };
    let up = range(
        all().flat_map(|point| [point.low, point.high]),
        picture.log_y,
        headroom(lines.len()),
    );
    let mut svg = String::new();
    let frame = Frame {
        experiment,
        picture,
        axis,
        lines,
    };
    match (picture.log_x, picture.log_y) {
        (false, false) => frame.draw(&mut svg, across, up),
        (true, false) => frame.draw(&mut svg, across.log_scale(), up),
        (false, true) => frame.draw(&mut svg, across, up.log_scale()),
        (true, true) => frame.draw(&mut svg, across.log_scale(), up.log_scale()),
    }?;
    Ok(Some(svg))
}

/// The whole height, by that which the lines have, where so many names stand above them.
fn headroom(lines: usize) -> f64 {
    let names = (NAME * lines as f64 + AROUND_NAMES).min(0.6);
    HEADROOM.max(1.0 / (1.0 - names))
}

/// The range of an axis that has all values in it.
fn range(values: impl Iterator<Item = f64>, log: bool, headroom: f64) -> Range<f64> {
    let usable = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
    let (least, most) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if !least.is_finite() {
        return 1.0..10.0;
    }
    if log {
        if most <= least && headroom <= 1.0 {
            // A single place stands in the middle.
            return least / 2.0..least * 2.0;
        }
        let top = if most > least { most } else { least * 2.0 };
        let step = if headroom > 1.0 {
            (top / least).powf(headroom - 1.0).max(2.0)
        } else {
            1.05
        };
        return least / 1.05..top * step;
    }
    let low = least.min(0.0);
    let high = if most > low { most } else { low + 1.0 };
    low..low + (high - low) * headroom.max(1.02)
}

struct Frame<'a> {
    experiment: &'a Experiment,
    picture: &'a Picture,
    axis: &'a Axis,
    lines: &'a [Line],
}

impl Frame<'_> {
    fn draw<X, Y>(&self, svg: &mut String, across: X, up: Y) -> Result<()>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        self.chart(svg, across, up)
            .map_err(|error| anyhow!("cannot draw {}: {error}", self.picture.title))
    }

    fn chart<'s, X, Y>(
        &self,
        svg: &'s mut String,
        across: X,
        up: Y,
    ) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'s> as DrawingBackend>::ErrorType>>
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let words = self.axis.levels.iter().all(|level| level.value.is_none());
        let rows = if words {
            self.rows_of_names()
        } else {
            Vec::new()
        };
        let below = 46 + rows.iter().max().map_or(0, |last| last * ROW);
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.picture.title, ("sans-serif", TITLE))
            .margin(12)
            .margin_right(30)
            .x_label_area_size(below)
            .y_label_area_size(90)
            .build_cartesian_2d(across, up)?;
        let unit = self.experiment.measure(&self.picture.y);
        let unit = unit.map_or("", |measure| measure.unit.as_str());
        // Words are written below, where they do not touch each other.
        let picture = self.picture;
        let across = |x: &f64| match words {
            true => String::new(),
            false => at_axis(*x, picture.log_x),
        };
        chart
            .configure_mesh()
            .x_desc(with_unit(&self.axis.name, &self.axis.unit))
            .y_desc(with_unit(&self.picture.y, unit))
            .x_label_formatter(&across)
            .x_labels(self.labels())
            .y_label_formatter(&|y| at_axis(*y, picture.log_y))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.15))
            .label_style(("sans-serif", TEXT))
            .draw()?;
        let style = ("sans-serif", TEXT).into_text_style(&root);
        let style = style.pos(Pos::new(HPos::Center, VPos::Top));
        for (index, (level, row)) in self.axis.levels.iter().zip(&rows).enumerate() {
            let (x, y) = chart.backend_coord(&(index as f64, chart.y_range().start));
            let place = (x, y + UNDER_AXIS + (row * ROW) as i32);
            root.draw(&Text::new(level.name.as_str(), place, style.clone()))?;
        }
        let (mut ours, mut theirs, mut models) = (0, 0, 0);
        for line in self.lines {
            let (number, ink) = match line.style {
                Style::Source => {
                    theirs += 1;
                    (MARKS - theirs.min(MARKS), BLACK.mix(0.55))
                }
                Style::Measured | Style::Marks => {
                    ours += 1;
                    (line.number.unwrap_or(ours - 1), BLACK.mix(1.0))
                }
                Style::Model => {
                    models += 1;
                    (models - 1, BLACK.mix(1.0))
                }
            };
            let stroke = ink.stroke_width(if line.style == Style::Source { 1 } else { 2 });
            let points = line.points.iter().map(|point| (point.x, point.y));
            let (dash, gap) = dashes(number);
            let (is_line, is_marks) = (line.style != Style::Marks, line.style != Style::Model);
            let joined = is_line.then(|| points.clone()).into_iter().flatten();
            let drawn = if gap == 0 {
                chart.draw_series(LineSeries::new(joined, stroke))?
            } else {
                chart.draw_series(DashedLineSeries::new(joined, dash, gap, stroke))?
            };
            drawn.label(&line.name).legend(move |at| {
                // What is not drawn has no length.
                let length = if is_line { 28 } else { 0 };
                let [one, two, three, four] = legend_line((dash, gap), length)
                    .map(|piece| PathElement::new(piece, ink.stroke_width(1)));
                let (fill, edge) = shape(number, if is_marks { ink } else { TRANSPARENT }, 14);
                EmptyElement::at(at) + one + two + three + four + fill + edge
            });
            if !is_marks {
                continue;
            }
            for point in line.points.iter().filter(|point| point.high > point.low) {
                let ends = vec![(point.x, point.low), (point.x, point.high)];
                chart.draw_series([PathElement::new(ends, ink.stroke_width(1))])?;
            }
            chart.draw_series(points.map(|at| {
                let (fill, edge) = shape(number, ink, 0);
                EmptyElement::at(at) + fill + edge
            }))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.4))
            .legend_area_size(36)
            .label_font(("sans-serif", TEXT))
            .draw()?;
        root.present()
    }
}

/// Between the rows that names at an axis are written in, and above the first, in pixels.
const ROW: u32 = 18;

const UNDER_AXIS: i32 = 8;

impl Frame<'_> {
    /// How many numbers stand along the axis to the right, at most.
    fn labels(&self) -> usize {
        let levels = &self.axis.levels;
        let numbers: Option<Vec<f64>> = levels.iter().map(|level| level.value).collect();
        match numbers {
            // Words are written elsewhere.
            None => levels.len() + 1,
            // What is counted one by one, as classes are, has no halves.
            Some(numbers)
                if numbers.len() > 1 && numbers.windows(2).all(|pair| pair[1] - pair[0] == 1.0) =>
            {
                levels.len().min(NUMBERS)
            }
            Some(_) => NUMBERS,
        }
    }

    /// In which row the name of each level stands: the first in which it touches none before it.
    fn rows_of_names(&self) -> Vec<u32> {
        let levels = &self.axis.levels;
        // About: what is left of the picture's width, and what a letter takes of it.
        let apart = 756.0 / levels.len().max(1) as f64;
        let mut ends: Vec<f64> = Vec::new();
        let mut rows = Vec::new();
        for (index, level) in levels.iter().enumerate() {
            let middle = (index as f64 + 0.5) * apart;
            let half = level.name.chars().count() as f64 * f64::from(TEXT) * 0.28 + 4.0;
            let free = ends.iter().position(|end| *end <= middle - half);
            let row = free.unwrap_or(ends.len());
            ends.resize(ends.len().max(row + 1), 0.0);
            ends[row] = middle + half;
            rows.push(row as u32);
        }
        rows
    }
}

fn with_unit(name: &str, unit: &str) -> String {
    if unit.is_empty() {
        name.to_owned()
    } else {
        format!("{name} ({unit})")
    }
}
