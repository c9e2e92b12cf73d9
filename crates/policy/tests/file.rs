//! Policies as files: what is written is read, and what is wrong is refused with its line and a reason.

use policy::{Band, MOST_RULES, Part, Policy, Rule, Unreadable};

const TEXT: &str = r#"{
  "version": 2,
  "connections": { "offload_from_rate": 150.0, "offload_below_rate": null },
  "rules": [
    { "up_to_bytes": 1024, "offload_from_rate": null, "offload_below_rate": null },
    { "up_to_bytes": 10240, "offload_from_rate": 200.0, "offload_below_rate": 900.0 }
  ],
  "above": { "offload_from_rate": 0.0, "offload_below_rate": null }
}
"#;

fn band(from: Option<f64>, below: Option<f64>) -> Band {
    Band {
        offload_from_rate: from,
        offload_below_rate: below,
    }
}

fn policy() -> Policy {
    let rule = |up_to_bytes, band| Rule { up_to_bytes, band };
    let middle = band(Some(200.0), Some(900.0));
    let rules = vec![rule(1024, Band::NEVER), rule(10_240, middle)];
    Policy::new(band(Some(150.0), None), rules, Band::ALWAYS).expect("consistent")
}

#[test]
fn sizes_and_loads_decide() {
    let policy = policy();
    assert!(policy.offload_connections(150.0) && !policy.offload_connections(149.9));
    assert!(!policy.offload(1024, 500.0));
    assert!(policy.offload(1025, 200.0) && !policy.offload(1025, 199.9));
    assert!(!policy.offload(10_240, 900.0));
    assert!(policy.offload(10_241, 0.0));
    assert_eq!(policy.sizes(500.0), [(1025, u64::MAX)]);
    assert_eq!(policy.sizes(900.0), [(10_241, u64::MAX)]);
}

#[test]
fn what_is_written_is_read() {
    assert_eq!(Policy::parse(TEXT), Ok(policy()));
    let text = policy().to_text().expect("written");
    assert_eq!(Policy::parse(&text), Ok(policy()));
}

#[test]
fn what_is_wrong_is_refused_with_its_line() {
    let refused = |from: &str, to: &str| {
        let text = TEXT.replacen(from, to, 1);
        assert_ne!(text, TEXT, "{from} is there");
        let Unreadable { line, message } = Policy::parse(&text).expect_err("refused");
        (line, message)
    };
    let (line, message) = refused("\"version\": 2", "\"version\": 1");
    assert_eq!(line, 2, "{message}");
    assert!(message.contains("a policy of version 1,") && message.contains("plan --policy"));
    let (line, message) = refused("10240", "512");
    assert_eq!(
        (line, &*message),
        (
            6,
            "rule 2: up_to_bytes is 512, and has to be above that of the rule before, 1024"
        )
    );
    let (line, message) = refused("150.0", "-1");
    assert_eq!(
        (line, &*message),
        (3, "connections: offload_from_rate is -1, and no rate")
    );
    let (line, message) = refused("900.0", "200");
    assert_eq!(
        (line, &*message),
        (
            6,
            "rule 2: offload_below_rate is 200, and has to be above offload_from_rate, 200"
        )
    );
    let (line, message) = refused("rate\": 0.0,", "rate\": -0.5,");
    assert_eq!(
        (line, &*message),
        (8, "above: offload_from_rate is -0.5, and no rate")
    );
    // A band that was forgotten is not one at which nothing is offloaded.
    let (line, message) = refused("\"offload_from_rate\": 0.0, ", "");
    assert_eq!((line, &*message), (8, "missing field `offload_from_rate`"));
    let (line, message) = refused("up_to_bytes", "up_to");
    assert_eq!(line, 5);
    assert!(message.starts_with("unknown field `up_to`"), "{message}");
    let (line, message) = refused("},\n    {", "}\n    {");
    assert_eq!(line, 6, "{message}");
    let nothing = Policy::parse("").expect_err("refused");
    assert_eq!(nothing.line, 1, "{nothing}");
}

#[test]
fn rules_are_few() {
    let rule = |up_to_bytes| Rule {
        up_to_bytes,
        band: Band::ALWAYS,
    };
    let rules = |count| (0..count).map(rule).collect();
    let most = MOST_RULES as u64;
    let policy = |count| Policy::new(Band::NEVER, rules(count), Band::NEVER);
    assert!(policy(most).is_ok());
    let error = policy(most + 1).expect_err("one too many");
    assert_eq!(error.part, Part::Rule(MOST_RULES + 1));
    assert_eq!(error.to_string(), "rule 33: there are 32 at most");
}
