//! The crate's answers beside values computed independently (`reference/reference.py`), to eight
//! digits.

use queueing::fit::agreement::kolmogorov_smirnov;
use queueing::fit::regression::{Load, service_time};
use queueing::queue::{many, mg1, mg1k, mm1};
use queueing::{Distribution, ModelError};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Case {
    what: String,
    inputs: Value,
    value: f64,
}

impl Case {
    fn number(&self, name: &str) -> f64 {
        self.inputs[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{}: no {name}", self.what))
    }

    fn count(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        let list = self.inputs[name].as_array().expect("a list");
        list.iter()
            .map(|value| value.as_f64().expect("a number"))
            .collect()
    }

    fn order(&self) -> u32 {
        self.number("order") as u32
    }

    fn erlang(&self) -> Result<Distribution, ModelError> {
        Distribution::erlang(self.number("stages") as u32, self.number("rate"))
    }

    fn log_normal(&self) -> Result<Distribution, ModelError> {
        Distribution::log_normal(self.number("mu"), self.number("sigma"))
    }

    fn mm1k(&self) -> Result<mm1::Bounded, ModelError> {
        mm1::mm1k(
            self.number("arrival"),
            self.number("service"),
            self.count("room"),
        )
    }

    fn mg1k(&self, service: &Distribution) -> Result<mm1::Bounded, ModelError> {
        mg1k::mg1k(self.number("arrival"), service, self.count("room"))
    }

    fn fit(&self) -> Result<queueing::fit::regression::ServiceTime, ModelError> {
        let loads: Vec<Load> = self
            .numbers("rates")
            .into_iter()
            .zip(self.numbers("busy"))
            .map(|(rate, busy)| Load { rate, busy })
            .collect();
        service_time(&loads, 0.95)
    }

    fn answer(&self) -> Result<f64, ModelError> {
        Ok(match self.what.as_str() {
            "exponential_moment" => {
                Distribution::exponential(self.number("rate"))?.moment(self.order())?
            }
            "erlang_moment" => self.erlang()?.moment(self.order())?,
            "log_normal_moment" => self.log_normal()?.moment(self.order())?,
            "bounded_pareto_moment" => {
                let (low, high) = (self.number("low"), self.number("high"));
                Distribution::bounded_pareto(low, high, self.number("alpha"))?
                    .moment(self.order())?
            }
            "hypoexponential_moment" => {
                Distribution::hypoexponential(&self.numbers("rates"))?.moment(self.order())?
            }
            "hypoexponential_cdf" => {
                Distribution::hypoexponential(&self.numbers("rates"))?.cdf(self.number("x"))
            }
            "log_normal_cdf" => self.log_normal()?.cdf(self.number("x")),
            "erlang_cdf" => self.erlang()?.cdf(self.number("x")),
            "mm1k_blocking" => self.mm1k()?.blocking,
            "mm1k_time" => self.mm1k()?.steady.time,
            "mmk_time" => {
                many::mmk(
                    self.number("arrival"),
                    self.number("service"),
                    self.count("servers"),
                )?
                .time
            }
            "mg1k_erlang_blocking" => self.mg1k(&self.erlang()?)?.blocking,
            "mg1k_erlang_time" => self.mg1k(&self.erlang()?)?.steady.time,
            "mg1k_log_normal_blocking" => self.mg1k(&self.log_normal()?)?.blocking,
            "mg1_wait" => mg1::mg1(self.number("arrival"), &self.erlang()?.moments()?)?.wait,
            "mg1_wait_variance" => {
                mg1::wait_variance(self.number("arrival"), &self.erlang()?.moments()?)?
            }
            "ks_distance" => kolmogorov_smirnov(&self.numbers("a"), &self.numbers("b"))?.distance,
            "ks_exact" => {
                let test = kolmogorov_smirnov(&self.numbers("a"), &self.numbers("b"))?;
                test.exact.expect("small enough")
            }
            "kolmogorov_survival" => {
                queueing::fit::agreement::kolmogorov_survival(self.number("x"))
            }
            "regression_slope" => self.fit()?.service.value,
            "regression_slope_low" => self.fit()?.service.low,
            "regression_start" => self.fit()?.background.value,
            "regression_start_high" => self.fit()?.background.high,
            "regression_explained" => self.fit()?.explained,
            other => panic!("no answer for {other}"),
        })
    }
}

#[test]
fn every_reference_value_is_met_to_eight_digits() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../reference/reference.json")).unwrap();
    assert!(cases.len() >= 60, "only {} cases", cases.len());
    let mut missed = Vec::new();
    for case in &cases {
        let answer = case
            .answer()
            .unwrap_or_else(|error| panic!("{}: {error}", case.what));
        if (answer - case.value).abs() > 1e-8 * case.value.abs() {
            missed.push(format!(
                "{} {}: {answer}, not {}",
                case.what, case.inputs, case.value
            ));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
