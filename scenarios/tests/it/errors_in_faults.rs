//! What a user sees when `[[fault]]` or `[deadline]` is wrong.

use crate::common;

use common::{VALID, error};
use insta::assert_snapshot;

fn with_fault(fault: &str) -> String {
    error(&format!("{VALID}\n[[fault]]\n{fault}\n"), &[])
}

#[test]
fn kinds_and_their_keys() {
    assert_snapshot!(with_fault("kind = \"dorp\""), @r#"
    error: unknown kind of fault `dorp`
      --> test.toml:29:8
       |
    29 | kind = "dorp"
       |        ^^^^^^
       |
       = help: did you mean `drop`? it must be one of `drop`, `delay`, `flipped-byte`, `slow-rank` and `dead-rank`
    "#);
    assert_snapshot!(with_fault("src = 0"), @r#"
    error: missing key `kind` in `fault.0`
      --> test.toml:28:1
       |
    28 | [[fault]]
       | ^^^^^^^^^
       |
       = help: add `kind = "drop"` to `fault.0`
    "#);
    assert_snapshot!(with_fault("kind = \"drop\"\nsrc = 0\ndst = 1\nby = \"1 ms\""), @r#"
    error: unknown key `by` in `fault.0`
      --> test.toml:32:1
       |
    32 | by = "1 ms"
       | ^^
       |
       = help: the valid keys are `kind`, `iteration`, `src`, `dst`, `segment` and `stage`
    "#);
    assert_snapshot!(with_fault("kind = \"delay\"\nsrc = 0\ndst = 1"), @r#"
    error: missing key `by` in `fault.0`
      --> test.toml:28:1
       |
    28 | [[fault]]
       | ^^^^^^^^^
       |
       = help: add `by = "1 ms"` to `fault.0`
    "#);
}

#[test]
fn sites() {
    assert_snapshot!(with_fault("kind = \"drop\"\nsrc = 0\ndst = 0"), @r#"
    error: rank `0` sends nothing to itself: a fault hits a transfer between two ranks
      --> test.toml:31:7
       |
    31 | dst = 0
       |       ^
    "#);
    assert_snapshot!(with_fault("kind = \"drop\"\nsrc = 0\ndst = 99"), @r#"
    error: `fault.0.dst` is out of range: `99`
      --> test.toml:31:7
       |
    31 | dst = 99
       |       ^^
       |
       = help: it must be an integer from 0 to 3
    "#);
    assert_snapshot!(with_fault("kind = \"drop\"\nsrc = 0\ndst = 1\nsegment = \"combin\""), @r#"
    error: unknown collective call `combin`
      --> test.toml:32:11
       |
    32 | segment = "combin"
       |           ^^^^^^^^
       |
       = help: did you mean `combine`? it must be one of `dispatch` and `combine`
    "#);
    assert_snapshot!(with_fault("kind = \"drop\"\nsrc = 0\ndst = 1\nstage = \"frame\""), @r#"
    error: unknown stage `frame`
      --> test.toml:32:9
       |
    32 | stage = "frame"
       |         ^^^^^^^
       |
       = help: it must be one of `raw`, `sizes`, `static`, `dynamic`, `slots`, `overflow`, `forward` and `sign-mantissa`
    "#);
    assert_snapshot!(with_fault("kind = \"dead-rank\"\nrank = 1\niteration = 1000"), @r#"
    error: `fault.0.iteration` is out of range: `1000`
      --> test.toml:31:13
       |
    31 | iteration = 1000
       |             ^^^^
       |
       = help: it must be an integer from 0 to 0
    "#);
}

#[test]
fn deadlines() {
    assert_snapshot!(error(&format!("{VALID}\n[deadline]\nslack = 0.5\n"), &[]), @r#"
    error: `deadline.slack` is out of range: `0.5`
      --> test.toml:29:9
       |
    29 | slack = 0.5
       |         ^^^
       |
       = help: it must be a number from 1.0 to 1000000.0
    "#);
    assert_snapshot!(error(&format!("{VALID}\n[deadline]\nfloor = 3\n"), &[]), @r#"
    error: `deadline.floor` needs a unit: `3` could be anything
      --> test.toml:29:9
       |
    29 | floor = 3
       |         ^
       |
       = help: write it as a string with a unit, like `"3 us"`; the units are `ns`, `us`, `µs`, `ms` and `s`
    "#);
}
