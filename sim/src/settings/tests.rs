use serde_json::json;

use super::*;

#[test]
fn the_table_and_the_defaults_agree() {
    let mut settings = Settings::default();
    for setting in SETTINGS {
        assert_eq!(
            (setting.get)(&settings),
            setting.default,
            "{}",
            setting.name
        );
        assert_eq!(
            settings.set(setting.name, setting.default),
            Ok(()),
            "{}",
            setting.name
        );
    }
    assert_eq!(settings, Settings::default());
}

#[test]
fn pairs_are_read() {
    let settings = Settings::from_pairs([
        "p-rule=0.5",
        "latency=lognormal:800,0.6,5000",
        "max-inflight = 3",
        "dead=true",
        "p429=0.2",
        "p429=",
    ]);
    let expected = Settings {
        params: Params {
            p_rule: 0.5,
            ..Params::default()
        },
        latency: Latency::Lognormal {
            median: 800.0,
            sigma: 0.6,
            cap: Some(5000.0),
        },
        max_inflight: Some(3),
        is_dead: true,
        ..Settings::default()
    };
    assert_eq!(settings, Ok(expected));
}

#[test]
fn errors_say_what_to_do() {
    let check = |pair: &str, expected: &str| {
        let error = Settings::from_pairs([pair]).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(
        "p_rule=1",
        "setting `p_rule` is unknown; did you mean `p-rule`?",
    );
    check(
        "latnecy=1",
        "setting `latnecy` is unknown; did you mean `latency`?",
    );
    check(
        "p429=2",
        "setting `p429` cannot be `2`; expected a number from 0 to 1",
    );
    check(
        "p429=NaN",
        "setting `p429` cannot be `NaN`; expected a number from 0 to 1",
    );
    check(
        "rps=0",
        "setting `rps` cannot be `0`; expected a whole number of at least 1, or nothing",
    );
    check(
        "p429",
        "`p429` is not a setting; expected `name=value`, such as `p429=0.05`",
    );
}

#[test]
fn json_changes_only_what_it_names() {
    let before = Settings::from_pairs(["p500=0.5", "retry-after=7"]).unwrap();
    let json = json!({"p429": 0.25, "retry-after": null, "latency": "fixed:5", "dead": true});
    let after = before.with_json(&json).unwrap();
    assert_eq!(after.get("p500").unwrap(), "0.5");
    assert_eq!(after.get("retry-after").unwrap(), "");
    assert_eq!(after.to_json()["p429"], 0.25);
    assert_eq!(after.to_json()["latency"], "fixed:5");
    assert_eq!(after.to_json()["retry-after"], Value::Null);
    assert_eq!(Settings::default().with_json(&after.to_json()), Ok(after));
    assert_eq!(before.with_json(&json!([])), Err(SettingError::NoObject));
}
