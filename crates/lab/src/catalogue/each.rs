//! Something for each of those that are measured, a bed as a rule. Who is left out of a run has no network, no engine
//! and no server.

use super::Setup;
use anyhow::{Context, Result};

/// What was made, by names.
pub struct Each<T>(Vec<(String, T)>);

impl<T> Each<T> {
    /// What `make` makes of every subject of a run.
    ///
    /// # Errors
    /// It cannot make one of them.
    pub fn of(setup: &Setup, make: impl FnMut(&str) -> Result<T>) -> Result<Self> {
        Self::named(setup.subjects.iter().map(String::as_str), make)
    }

    /// What `make` makes of every name, once of those that come several times: subjects may share something.
    ///
    /// # Errors
    /// It cannot make one of them.
    pub fn named<'a>(
        names: impl IntoIterator<Item = &'a str>,
        mut make: impl FnMut(&str) -> Result<T>,
    ) -> Result<Self> {
        let mut made: Vec<(String, T)> = Vec::new();
        for name in names {
            if made.iter().all(|(known, _)| known != name) {
                made.push((name.to_owned(), make(name)?));
            }
        }
        Ok(Self(made))
    }

    /// That of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, name: &str) -> Result<&T> {
        let known = self.0.iter().find(|(known, _)| known == name);
        let (_, made) = known.with_context(|| format!("there is no {name}"))?;
        Ok(made)
    }

    /// As [`get`](Self::get), to change it.
    ///
    /// # Errors
    /// There is none.
    pub fn get_mut(&mut self, name: &str) -> Result<&mut T> {
        let known = self.0.iter_mut().find(|(known, _)| known == name);
        let (_, made) = known.with_context(|| format!("there is no {name}"))?;
        Ok(made)
    }

    /// The same, with each made into something else.
    ///
    /// # Errors
    /// One of them cannot be made.
    pub fn map<U>(self, mut make: impl FnMut(T) -> Result<U>) -> Result<Each<U>> {
        let each = self.0.into_iter();
        let made = each.map(|(name, one)| Ok((name, make(one)?)));
        Ok(Each(made.collect::<Result<_>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::Each;
    use crate::catalogue::Setup;

    #[test]
    fn what_is_not_asked_for_is_not_made() {
        let setup = Setup {
            binary: "none".into(),
            log: None,
            kept: "none".into(),
            subjects: vec!["engine".into()],
        };
        let mut made = Vec::new();
        let each = Each::of(&setup, |name| {
            made.push(name.to_owned());
            Ok(name.len())
        });
        assert_eq!(made, ["engine"]);
        let each = each.unwrap();
        assert_eq!(*each.get("engine").unwrap(), 6);
        let error = each.get("kernel").unwrap_err().to_string();
        assert_eq!(error, "there is no kernel");
    }

    #[test]
    fn what_several_share_is_made_once() {
        let mut number = 0;
        let each = Each::named(["one", "other", "one"], |_| {
            number += 1;
            Ok(number)
        });
        let each = each.unwrap();
        let made = ["one", "other"].map(|name| *each.get(name).unwrap());
        assert_eq!(made, [1, 2]);
    }
}
