//! What an experiment says of itself. It is stored with its results, so that a report can be made
//! of them when the experiment has changed.

use super::below::Below;
use super::left_out::LeftOut;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// What commands call it: lower case, without blanks.
    pub name: String,
    /// One line.
    pub title: String,
    /// What it asks, and what of the source it repeats.
    pub question: String,
    /// What is asked of the subjects: the client, its requests, its connections.
    pub workload: String,
    /// What each core does.
    pub roles: String,
    /// What varies, besides the subject. Every combination is measured.
    pub axes: Vec<Axis>,
    /// What is compared.
    pub subjects: Vec<String>,
    /// What is measured of each. The interval of the first has to be narrow, and those of what is claimed.
    pub measures: Vec<Measure>,
    /// How it is drawn.
    pub pictures: Vec<Picture>,
    /// The source's own figures.
    pub findings: Vec<Finding>,
    /// What is to hold, by the source or by a goal of this project.
    pub claims: Vec<Claim>,
    /// What would be in it, if what that needs were installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// A queueing model that it is held against, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
}

/// Something that varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// Its unit; empty if it has none.
    pub unit: String,
    /// Its values.
    pub levels: Vec<Level>,
}

impl Axis {
    /// An axis of numbers.
    pub fn of_numbers(name: &str, unit: &str, values: &[f64]) -> Self {
        let level = |value: &f64| Level {
            name: value.to_string(),
            value: Some(*value),
            without: Vec::new(),
        };
        Self {
            name: name.into(),
            unit: unit.into(),
            levels: values.iter().map(level).collect(),
        }
    }

    /// An axis of words.
    pub fn of_words(name: &str, words: &[&str]) -> Self {
        let level = |word: &&str| Level {
            name: (*word).into(),
            value: None,
            without: Vec::new(),
        };
        Self {
            name: name.into(),
            unit: String::new(),
            levels: words.iter().map(level).collect(),
        }
    }
}

impl Axis {
    /// The same, where a subject has none of the levels with such numbers.
    pub fn without(mut self, subject: &str, is_such: impl Fn(f64) -> bool) -> Self {
        for level in &mut self.levels {
            if level.value.is_some_and(&is_such) {
                level.without.push(subject.into());
            }
        }
        self
    }

    /// The same, where these subjects have no such level as is called `level`.
    pub fn without_of(mut self, subjects: &[&str], level: &str) -> Self {
        for known in self.levels.iter_mut().filter(|known| known.name == level) {
            let subjects = subjects.iter().copied().map(String::from);
            known.without.extend(subjects);
        }
        self
    }

    /// Where a level stands, by its name: at its number or, on an axis of words, at its place.
    pub fn place_of(&self, name: &str) -> Option<f64> {
        let index = self.levels.iter().position(|level| level.name == name)?;
        self.place(index)
    }

    /// Where a level stands, by its index.
    pub fn place(&self, index: usize) -> Option<f64> {
        if self.levels.iter().all(|level| level.value.is_none()) {
            return (index < self.levels.len()).then_some(index as f64);
        }
        self.levels.get(index)?.value
    }
}

/// One value of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// What tables call it.
    pub name: String,
    /// Its number, if it has one.
    pub value: Option<f64>,
    /// Subjects, by name, that have no such thing: there is nothing to be measured of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

impl Level {
    /// Whether any of these subjects has it.
    pub fn is_had_by(&self, subjects: &[String]) -> bool {
        subjects
            .iter()
            .any(|subject| !self.without.contains(subject))
    }
}

/// A quantity that is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// What tables call it.
    pub name: String,
    /// Its unit.
    pub unit: String,
}

impl Measure {
    /// A quantity in a unit.
    pub fn new(name: &str, unit: &str) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
        }
    }
}

/// A plot: a measure over an axis, a line for each subject and each combination of other axes, or of those
/// that it is [at](Self::at).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// What stands above it.
    pub title: String,
    /// The axis to the right, by name.
    pub x: String,
    /// The measure upwards, by name.
    pub y: String,
    /// A logarithmic scale to the right: steps of the same factor have the same width.
    pub log_x: bool,
    /// A logarithmic scale upwards.
    pub log_y: bool,
    /// Only what was measured here: names of an axis and of a level of it. At any level, where an axis is
    /// not named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<(String, String)>,
    /// Only what was measured of these subjects, by name; of all, where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// Measures, by name, that are drawn one after another, instead of one over an axis: the course of something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<String>,
}

impl Picture {
    /// Of all of a measure over an axis, on linear scales.
    pub fn new(title: impl Into<String>, x: impl Into<String>, y: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            x: x.into(),
            y: y.into(),
            log_x: false,
            log_y: false,
            at: Vec::new(),
            subjects: Vec::new(),
            moments: Vec::new(),
        }
    }

    /// Of measures one after another; `x` and `y` are what stands at the axes.
    pub fn course(
        title: impl Into<String>,
        x: impl Into<String>,
        y: impl Into<String>,
        moments: &[&str],
    ) -> Self {
        Self {
            moments: moments.iter().copied().map(String::from).collect(),
            ..Self::new(title, x, y)
        }
    }

    /// On a logarithmic scale to the right.
    pub fn log_x(self) -> Self {
        Self {
            log_x: true,
            ..self
        }
    }

    /// On a logarithmic scale upwards.
    pub fn log_y(self) -> Self {
        Self {
            log_y: true,
            ..self
        }
    }

    /// Of what was measured at this level of another axis.
    pub fn at(mut self, axis: &str, level: &str) -> Self {
        self.at.push((axis.into(), level.into()));
        self
    }

    /// Of these subjects alone, or of all, where none is named.
    pub fn of(self, subjects: &[&str]) -> Self {
        Self {
            subjects: subjects.iter().copied().map(String::from).collect(),
            ..self
        }
    }

    /// Whether it has a line of this subject.
    pub fn is_of(&self, subject: &str) -> bool {
        self.subjects.is_empty() || self.subjects.iter().any(|known| known == subject)
    }
}

/// Where a figure of a source stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Citation {
    /// The document, by its number in `docs/sources.md`.
    pub document: String,
    /// The table, the figure or the section.
    pub place: String,
}

impl Citation {
    /// What this project wants of itself.
    pub fn goal() -> Self {
        Self {
            document: "goal".into(),
            place: "of this project".into(),
        }
    }
}

/// Figures of a source: one line of one of its plots, or a column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What was measured there, on what.
    pub name: String,
    /// The axis, by name.
    pub axis: String,
    /// The measure, by name; the figures are in its unit.
    pub measure: String,
    /// Values of the axis, or places of its words, and of the measure.
    pub points: Vec<(f64, f64)>,
    /// What it is of: names of an axis and of a level of it. A picture of other levels does not show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<(String, String)>,
    /// Where it stands.
    pub citation: Citation,
}

impl Finding {
    /// Whether what was measured at these levels, one of each axis, is what it is of.
    pub fn is_at(&self, experiment: &Experiment, levels: &[usize]) -> bool {
        experiment.are_among(levels, &self.at)
    }

    /// Whether it says of which level of this axis it is.
    pub fn says(&self, axis: &str) -> bool {
        self.at.iter().any(|(known, _)| known == axis)
    }
}

/// A statement about the ratio of two subjects, or about the figure of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// In words.
    pub says: String,
    /// Who says so.
    pub citation: Citation,
    /// What is compared, by name.
    pub measure: String,
    /// The subject above the line.
    pub subject: String,
    /// The subject below it, which may be at other levels. Empty: nothing is, and the bound is one of the figure itself,
    /// in its measure's unit.
    pub to: Below,
    /// At these levels only: names of an axis and of a level of it. At any, where an axis is not
    /// named.
    pub at: Vec<(String, String)>,
    /// What the ratio is to be.
    pub ratio: Bound,
}

impl Claim {
    /// Whether it is about what is measured at these levels, one of each axis.
    pub fn is_at(&self, experiment: &Experiment, levels: &[usize]) -> bool {
        experiment.are_among(levels, &self.at)
    }

    /// The subject below the line, if it is about a ratio.
    pub fn below(&self) -> Option<&String> {
        Some(&self.to.subject).filter(|to| !to.is_empty())
    }

    /// The levels of what stands below the line, where what stands above has these, one of each axis. `None`: the
    /// experiment has not what is named.
    pub fn levels_below(&self, experiment: &Experiment, above: &[usize]) -> Option<Vec<usize>> {
        let mut levels = above.to_vec();
        for (name, level) in &self.to.at {
            let index = experiment.axes.iter().position(|axis| axis.name == *name)?;
            let mut known = experiment.axes[index].levels.iter();
            *levels.get_mut(index)? = known.position(|known| known.name == *level)?;
        }
        Some(levels)
    }

    /// Whether what is measured of a subject at these levels stands above the line or below it, somewhere.
    pub fn is_of(&self, experiment: &Experiment, subject: &String, levels: &[usize]) -> bool {
        let is_above = self.subject == *subject && self.is_at(experiment, levels);
        let elsewhere = |(axis, _): &&(String, String)| {
            let mut named = self.to.at.iter();
            named.all(|(known, _)| known != axis)
        };
        let at = self.at.iter().filter(elsewhere).chain(&self.to.at);
        let at: Vec<(String, String)> = at.cloned().collect();
        is_above || (self.below() == Some(subject) && experiment.are_among(levels, &at))
    }

    /// What it is about: two subjects, or one.
    pub fn compared(&self) -> String {
        match self.below() {
            Some(_) => format!("{} / {}", self.subject, self.to),
            None => self.subject.clone(),
        }
    }
}

/// A queueing model that is fitted at some levels of an axis of load, and held against the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The axis, by name.
    pub axis: String,
    /// The measure of requests a second that were served, by name.
    pub rate: String,
    /// The measure of how busy the server's core was, in percent.
    pub utilisation: String,
    /// The measure of the mean time of a request, in milliseconds.
    pub delay: String,
    /// The levels that the model does not see, by name.
    pub held: Vec<String>,
    /// Whether server and engine share a core, as they did in runs that do not say so.
    #[serde(default = "shared")]
    pub shared_cores: bool,
    /// An engine that is a stage of its own, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<Second>,
    /// What the source has of its own models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub there: Vec<There>,
    /// Subjects, by name, that it is not fitted to: of what they do a part is in neither busy share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

/// What a source has of its model of a subject at some levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct There {
    /// The subject of ours that it is like, by name.
    pub subject: String,
    /// The levels: names of axes and of a level of each.
    pub at: Vec<(String, String)>,
    /// The distance by Kolmogorov and Smirnov between what was modelled and what was measured.
    pub distance: f64,
    /// The probability that it printed beside it.
    pub p: f64,
    /// Where its server was saturated, requests a second, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation: Option<f64>,
}

fn shared() -> bool {
    true
}

/// The second of two stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// The subjects that have it: their engine has a core of its own.
    pub subjects: Vec<String>,
    /// The measure of how busy it was, by name, in percent.
    pub utilisation: String,
    /// Who has that core, too, if anybody has: as in "the client".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<String>,
}

/// What a ratio is to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Experiment {
    /// The axis called `name`.
    pub fn axis(&self, name: &str) -> Option<&Axis> {
        self.axes.iter().find(|axis| axis.name == name)
    }

    /// The measure called `name`.
    pub fn measure(&self, name: &str) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.name == name)
    }

    /// Whether levels, one of each axis, are among those that are named, of each axis of which any is.
    pub(super) fn are_among(&self, levels: &[usize], named: &[(String, String)]) -> bool {
        let mut axes = self.axes.iter().zip(levels);
        axes.all(|(axis, &level)| {
            let mut of_axis = named.iter().filter(|(name, _)| *name == axis.name);
            let is_named = of_axis.clone().next().is_some();
            let name = axis.levels.get(level).map(|level| &level.name);
            !is_named || of_axis.any(|(_, wanted)| Some(wanted) == name)
        })
    }

    /// What a combination with these values is judged by: the first measure that it has, with its value. A stream has
    /// no latency, say.
    pub fn judged_by<'a, T>(
        &'a self,
        values: &'a BTreeMap<String, T>,
    ) -> Option<(&'a Measure, &'a T)> {
        let mut measures = self.measures.iter();
        measures.find_map(|measure| Some((measure, values.get(&measure.name)?)))
    }

    /// What is wrong with it: names that nothing has, axes without levels. Nothing, if it is right.
    pub fn mistakes(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut need = |right: bool, what: String| {
            if !right {
                found.push(what);
            }
        };
        need(!self.subjects.is_empty(), "no subject".into());
        need(!self.measures.is_empty(), "no measure".into());
        for axis in &self.axes {
            need(!axis.levels.is_empty(), format!("nothing in {}", axis.name));
            // Rounds of levels that have one name would be taken for those of one.
            let mut names = BTreeSet::new();
            for level in &axis.levels {
                let is_new = names.insert(&level.name);
                need(is_new, format!("{} twice in {}", level.name, axis.name));
            }
        }
        for level in self.axes.iter().flat_map(|axis| &axis.levels) {
            let is_had = self.subjects.is_empty() || level.is_had_by(&self.subjects);
            need(is_had, format!("no subject has {}", level.name));
        }
        for picture in &self.pictures {
            // Some of those that it could be of may be left out of a run.
            let is_of_any = self.subjects.iter().any(|subject| picture.is_of(subject));
            let right = self.subjects.is_empty() || is_of_any;
            need(right, format!("no subject of {}", picture.title));
        }
        for moment in self.pictures.iter().flat_map(|p| &p.moments) {
            let known = self.measure(moment).is_some();
            need(known, format!("no measure {moment}"));
        }
        let over_axes = self.pictures.iter().filter(|p| p.moments.is_empty());
        let named = over_axes.map(|p| (&p.x, &p.y));
        let named = named.chain(self.findings.iter().map(|f| (&f.axis, &f.measure)));
        for (axis, measure) in named {
            need(self.axis(axis).is_some(), format!("no axis {axis}"));
            need(
                self.measure(measure).is_some(),
                format!("no measure {measure}"),
            );
        }
        if let Some(model) = &self.model {
            need(
                self.axis(&model.axis).is_some(),
                format!("no axis {}", model.axis),
            );
            let second = model.second.as_ref();
            let fitted = second.into_iter().flat_map(|second| &second.subjects);
            for subject in fitted.chain(&model.without) {
                let is_known = self.subjects.contains(subject);
                need(is_known, format!("no subject {subject}"));
            }
            let measures = [&model.rate, &model.utilisation, &model.delay];
            for measure in measures.into_iter().chain(second.map(|it| &it.utilisation)) {
                need(
                    self.measure(measure).is_some(),
                    format!("no measure {measure}"),
                );
            }
        }
        for claim in &self.claims {
            let measure = &claim.measure;
            need(
                self.measure(measure).is_some(),
                format!("no measure {measure}"),
            );
            for subject in [Some(&claim.subject), claim.below()].into_iter().flatten() {
                need(
                    self.subjects.contains(subject),
                    format!("no subject {subject}"),
                );
            }
        }
        let places = self.claims.iter().map(|claim| &claim.at);
        let places = places.chain(self.claims.iter().map(|claim| &claim.to.at));
        let places = places.chain(self.pictures.iter().map(|picture| &picture.at));
        let places = places.chain(self.findings.iter().map(|finding| &finding.at));
        for (axis, level) in places.flatten() {
            let has = |axis: &Axis| axis.levels.iter().any(|known| known.name == *level);
            need(
                self.axis(axis).is_some_and(has),
                format!("no {axis} {level}"),
            );
        }
        found
    }
}
