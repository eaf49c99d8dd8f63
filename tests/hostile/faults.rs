//! Faults that never fire.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::common::{Case, SCENARIO};
use crate::trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("a_fault_that_does_not_fire_is_said", a_fault_that_does_not_fire_is_said)]
}

fn a_fault_that_does_not_fire_is_said() {
    // A delay that both variants suffer, one of a stage that only one of them has, and a death after the end.
    let fault = "[[fault]]\nkind = \"delay\"\nsrc = 0\ndst = 1\nby = \"1 us\"\n\
        [[fault]]\nkind = \"delay\"\nsrc = 0\ndst = 1\nstage = \"static\"\nby = \"1 us\"\n\
        [[fault]]\nkind = \"dead-rank\"\nrank = 1\nat = \"10 s\"\n";
    let case = Case::new(&format!("{SCENARIO}{fault}"));
    for executor in ["sim", "threads"] {
        let run = case.run(&["--json", "--on", executor]);
        run.expect(0, &format!("`fault.1` did not fire in `native` on `{executor}`"));
        run.expect(
            0,
            &format!("`fault.2` did not fire in `native` on `{executor}`, `static-first` on `{executor}`"),
        );
        assert!(!run.error.contains("`fault.0`"), "{}", run.error);
        let summary: Value = serde_json::from_str(&run.out).unwrap();
        let unfired = |variant: &str| summary["executors"][executor][variant]["faults_not_fired"].clone();
        assert_eq!(unfired("native"), serde_json::json!([1, 2]));
        assert_eq!(unfired("static-first"), serde_json::json!([2]));
    }
    // Without faults the summary has no such key.
    let healthy = Case::new(SCENARIO).run(&["--json"]);
    assert!(!healthy.out.contains("faults_not_fired"), "{}", healthy.out);
}
