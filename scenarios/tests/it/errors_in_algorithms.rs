//! What a user sees when an All-Gather, a broadcast or its algorithm is wrong: whole messages.

use crate::common;

use common::{Folder, error, flat};
use insta::assert_snapshot;

/// The message for a collective of four ranks; `variant`, if it is not empty, is what its variant says.
#[track_caller]
fn refused(collective: &str, bytes: &str, variant: &str) -> String {
    let mut text = flat(&format!("kind = \"collective\"\ncollective = \"{collective}\"\n{bytes}"));
    if !variant.is_empty() {
        text += &format!("[[variant]]\nname = \"a\"\n{variant}\n");
    }
    error(&text, &[])
}

#[test]
fn an_all_gather_needs_a_length_for_each_rank() {
    assert_snapshot!(refused("all-gather", "bytes = [\"1 KiB\", \"2 KiB\"]", ""), @r#"
    error: `workload.bytes` has 2 entries for `4` ranks
      --> test.toml:10:9
       |
    10 | bytes = ["1 KiB", "2 KiB"]
       |         ^^^^^^^^^^^^^^^^^^
    "#);
    assert_snapshot!(refused("all-gather", "bytes = [2, 2, 3, 2]", ""), @r"
    error: `3` bytes are no whole number of BF16 values of 2 bytes
      --> test.toml:10:16
       |
    10 | bytes = [2, 2, 3, 2]
       |                ^
    ");
    assert_snapshot!(refused("all-gather", "bytes_per_rank = \"1023 B\"", ""), @r#"
    error: `1023` bytes are no whole number of BF16 values of 2 bytes
      --> test.toml:10:18
       |
    10 | bytes_per_rank = "1023 B"
       |                  ^^^^^^^^
    "#);
    assert_snapshot!(refused("all-gather", "bytes_per_rank = \"512 GiB\"", ""), @r#"
    error: `the bytes that one rank sends or receives` is out of range: `2199023255552`
      --> test.toml:10:18
       |
    10 | bytes_per_rank = "512 GiB"
       |                  ^^^^^^^^^
       |
       = help: it must be at most 1 TiB
    "#);
    assert_snapshot!(refused("all-gather", "bytes_per_rank = \"1 KiB\"\nbytes = [2, 2, 2, 2]", ""), @r#"
    error: `workload` needs exactly one of `bytes_per_rank` and `bytes`, found `bytes_per_rank` and `bytes`
      --> test.toml:11:9
       |
    10 | bytes_per_rank = "1 KiB"
       |                  ------- and here
    11 | bytes = [2, 2, 2, 2]
       |         ^^^^^^^^^^^^
    "#);
    assert_snapshot!(refused("all-gather", "matrix = \"m.csv\"", ""), @r#"
    error: unknown key `matrix` in `workload`
      --> test.toml:10:1
       |
    10 | matrix = "m.csv"
       | ^^^^^^
       |
       = help: it is a key of `[workload.routing]`; the valid keys are `kind`, `collective`, `dtype`, `bytes_per_rank`, `bytes`, `start` and `payload`
    "#);
}

#[test]
fn a_broadcast_needs_a_length_and_a_root() {
    assert_snapshot!(refused("broadcast", "root = 1", ""), @r#"
    error: missing key `bytes` in `workload`
     --> test.toml:7:1
      |
    7 | [workload]
      | ^^^^^^^^^^
      |
      = help: add `bytes = "1 MiB"` to `workload`
    "#);
    assert_snapshot!(refused("broadcast", "bytes = \"1 KiB\"\nroot = 4", ""), @r"
    error: `workload.root` is out of range: `4`
      --> test.toml:11:8
       |
    11 | root = 4
       |        ^
       |
       = help: it must be an integer from 0 to 3
    ");
    assert_snapshot!(refused("broadcast", "bytes = [2, 2, 2, 2]", ""), @r#"
    error: `workload.bytes` must be a string with a number and a unit, found an array
      --> test.toml:10:9
       |
    10 | bytes = [2, 2, 2, 2]
       |         ^^^^^^^^^^^^
       |
       = help: like `bytes = "16 MiB"`
    "#);
}

/// The key of earlier versions names the one of this version, and what its values are called now.
#[test]
fn a_form_is_an_algorithm() {
    assert_snapshot!(refused("all-gather", "bytes_per_rank = \"1 KiB\"", "form = \"exact\""), @r#"
    error: key `form` in `variant.0` is now `algorithm`
      --> test.toml:13:1
       |
    13 | form = "exact"
       | ^^^^
       |
       = help: write `algorithm`; of its values, `exact` is now `ring`, `padded` is `padded-ring`, and `grouped` and `all-to-all` are `direct`
    "#);
}

#[test]
fn algorithms_belong_to_collectives() {
    assert_snapshot!(refused("all-to-all", "bytes_per_rank = \"1 KiB\"", "algorithm = \"ring\""), @r#"
    error: `variant.0.algorithm` has no effect: nothing in the workload has several algorithms
      --> test.toml:13:13
       |
    13 | algorithm = "ring"
       |             ^^^^^^
       |
       = help: leave `variant.0.algorithm` out
    "#);
    assert_snapshot!(refused("all-gather", "bytes_per_rank = \"1 KiB\"", "algorithm = \"tree\""), @r#"
    error: unknown algorithm of this collective `tree`
      --> test.toml:13:13
       |
    13 | algorithm = "tree"
       |             ^^^^^^
       |
       = help: it must be one of `auto`, `ring`, `padded-ring`, `hierarchical`, `direct` and `library`
    "#);
    assert_snapshot!(refused("broadcast", "bytes = \"1 KiB\"", "algorithm = \"padded-ring\""), @r#"
    error: unknown algorithm of this collective `padded-ring`
      --> test.toml:13:13
       |
    13 | algorithm = "padded-ring"
       |             ^^^^^^^^^^^^^
       |
       = help: it must be one of `auto`, `tree`, `ring` and `direct`
    "#);
}

#[test]
fn values_are_not_padded() {
    assert_snapshot!(refused("all-gather", "bytes_per_rank = \"1 KiB\"", "algorithm = \"padded-ring\""), @r#"
    error: algorithm `padded-ring` pads frames, and protocol `native` has none
      --> test.toml:13:13
       |
    13 | algorithm = "padded-ring"
       |             ^^^^^^^^^^^^^
       |
       = help: set `algorithm = "ring"`, in which each block has its own length, or a protocol with frames: `size-first`, `static-first`, `overlap-sizes`, `in-band`, `speculative` and `split-send`
    "#);
}

#[test]
fn rings_and_trees_have_their_own_order() {
    assert_snapshot!(refused("all-gather", "bytes_per_rank = \"1 KiB\"", "order = \"largest-first\""), @r#"
    error: `variant.0.order` has no effect: the algorithm `auto` leaves no choice of which transfer comes next
      --> test.toml:13:9
       |
    13 | order = "largest-first"
       |         ^^^^^^^^^^^^^^^
       |
       = help: leave `variant.0.order` out, or set `algorithm = "direct"`
    "#);
    assert_snapshot!(refused("all-gather", "bytes_per_rank = \"1 KiB\"", "protocol = \"size-first\"\nalgorithm = \"padded-ring\"\nwindow = 2"), @r#"
    error: `variant.0.window` has no effect: the algorithm `padded-ring` leaves no choice of which transfer comes next
      --> test.toml:15:10
       |
    15 | window = 2
       |          ^
       |
       = help: leave `variant.0.window` out, or set `algorithm = "direct"`
    "#);
    assert_snapshot!(refused("broadcast", "bytes = \"1 KiB\"", "window = 2"), @r#"
    error: `variant.0.window` has no effect: the algorithm `auto` leaves no choice of which transfer comes next
      --> test.toml:13:10
       |
    13 | window = 2
       |          ^
       |
       = help: leave `variant.0.window` out, or set `algorithm = "direct"`
    "#);
}

#[test]
fn only_frames_of_size_first_have_several_layouts() {
    assert_snapshot!(refused("all-to-all", "bytes_per_rank = \"1 KiB\"", "layout = \"split\""), @r#"
    error: `variant.0.layout` has no effect: only frames of `size-first` and `speculative` can have several layouts
      --> test.toml:13:10
       |
    13 | layout = "split"
       |          ^^^^^^^
    "#);
}

#[test]
fn what_adds_up_on_the_way_is_not_coded() {
    assert_snapshot!(refused("reduce-scatter", "bytes_per_rank = \"1 KiB\"", "protocol = \"size-first\"\nalgorithm = \"ring\""), @r#"
    error: algorithm `ring` adds up on the way, and frames of protocol `size-first` are decoded at their end
      --> test.toml:14:13
       |
    14 | algorithm = "ring"
       |             ^^^^^^
       |
       = help: set `algorithm = "direct"`, which is the default of protocols with frames, or `protocol = "native"`
    "#);
    assert_snapshot!(refused("all-reduce", "bytes_per_rank = \"1 KiB\"", "order = \"any-ready\""), @r#"
    error: `variant.0.order` has no effect: the algorithm `auto` leaves no choice of which transfer comes next
      --> test.toml:13:9
       |
    13 | order = "any-ready"
       |         ^^^^^^^^^^^
       |
       = help: leave `variant.0.order` out, or set `algorithm = "direct"`
    "#);
    assert_snapshot!(refused("all-reduce", "bytes_per_rank = \"1 KiB\"", "algorithm = \"padded-ring\""), @r#"
    error: unknown algorithm of this collective `padded-ring`
      --> test.toml:13:13
       |
    13 | algorithm = "padded-ring"
       |             ^^^^^^^^^^^^^
       |
       = help: it must be one of `auto`, `ring`, `tree`, `direct`, `hierarchical` and `library`
    "#);
}

#[test]
fn only_some_types_are_added_up() {
    assert_snapshot!(refused("all-reduce", "bytes_per_rank = \"1 KiB\"\ndtype = \"F8_E5M2\"", ""), @r#"
    error: unknown dtype `F8_E5M2`
      --> test.toml:11:9
       |
    11 | dtype = "F8_E5M2"
       |         ^^^^^^^^^
       |
       = help: it must be one of `BF16` and `F32`
    "#);
    assert_snapshot!(refused("reduce-scatter", "bytes = [2, 2, 2, 3]", ""), @r"
    error: `3` bytes are no whole number of BF16 values of 2 bytes
      --> test.toml:10:19
       |
    10 | bytes = [2, 2, 2, 3]
       |                   ^
    ");
    assert_snapshot!(refused("all-reduce", "bytes_per_rank = \"1026 B\"\ndtype = \"F32\"", ""), @r#"
    error: `1026` bytes are no whole number of F32 values of 4 bytes
      --> test.toml:10:18
       |
    10 | bytes_per_rank = "1026 B"
       |                  ^^^^^^^^
    "#);
}

/// The message for two GPUs whose cluster has these lines, too.
#[track_caller]
fn refused_on(cluster: &str, collective: &str, variants: &str) -> String {
    let text = format!(
        "name = \"test\"\n[cluster]\nnodes = 1\ngpus_per_node = 2\ngpu_bandwidth = \"1 GB/s\"\n\
         latency_intra = \"1 us\"\n{cluster}\n[workload]\nkind = \"collective\"\ncollective = \"{collective}\"\n\
         bytes_per_rank = \"1 KiB\"\n[codec]\nid = \"window7\"\n\
         speed = {{ encode = \"1 GB/s\", decode = \"1 GB/s\", launch = \"1 us\" }}\nratio = 1.3\n{variants}"
    );
    error(&text, &[])
}

#[test]
fn a_library_is_called_only_for_what_has_a_cost() {
    let variant = "[[variant]]\nname = \"a\"\nalgorithm = \"library\"\n";
    let gather = "library.all-gather = { latency = \"30 us\", bandwidth = \"22 GB/s\" }";
    assert_snapshot!(refused_on("", "all-gather", variant), @r#"
    error: algorithm `library` calls the library for each all-gather, and `cluster.library` does not say what that costs with 2 GPUs per node
      --> test.toml:18:13
       |
    18 | algorithm = "library"
       |             ^^^^^^^^^
       |
       = help: add `all-gather = { latency = "30 us", per_rank = "6 us", bandwidth = "22 GB/s" }` to `[cluster.library]`, or if it is there, `2 = "22 GB/s"` to its `bandwidth`
    "#);
    assert_snapshot!(refused_on(gather, "all-reduce", variant), @r#"
    error: algorithm `library` calls the library for each all-reduce, and `cluster.library` does not say what that costs with 2 GPUs per node
      --> test.toml:18:13
       |
    18 | algorithm = "library"
       |             ^^^^^^^^^
       |
       = help: add `all-reduce = { latency = "30 us", per_rank = "6 us", bandwidth = "22 GB/s" }` to `[cluster.library]`, or if it is there, `2 = "22 GB/s"` to its `bandwidth`
    "#);
    assert_snapshot!(refused_on("library.all-gather = { latency = \"30 us\" }", "all-gather", variant), @r#"
    error: missing key `bandwidth` in `cluster.library.all-gather`
     --> test.toml:7:22
      |
    7 | library.all-gather = { latency = "30 us" }
      |                      ^^^^^^^^^^^^^^^^^^^^^
      |
      = help: add `bandwidth = "22 GB/s"` to `cluster.library.all-gather`
    "#);
    let by_gpus = |entry: &str| {
        format!("library.all-gather = {{ latency = \"30 us\", bandwidth = {{ {entry} = \"22 GB/s\" }} }}")
    };
    assert_snapshot!(refused_on(&by_gpus("few"), "all-gather", variant), @r#"
    error: `a key of cluster.library.all-gather.bandwidth` is out of range: `few`
     --> test.toml:7:57
      |
    7 | library.all-gather = { latency = "30 us", bandwidth = { few = "22 GB/s" } }
      |                                                         ^^^
      |
      = help: it must be a number of GPUs per node, from 1 to 4096
    "#);
    assert_snapshot!(refused_on(&by_gpus("4096"), "all-gather", variant), @r#"
    error: algorithm `library` calls the library for each all-gather, and `cluster.library` does not say what that costs with 2 GPUs per node
      --> test.toml:18:13
       |
    18 | algorithm = "library"
       |             ^^^^^^^^^
       |
       = help: add `all-gather = { latency = "30 us", per_rank = "6 us", bandwidth = "22 GB/s" }` to `[cluster.library]`, or if it is there, `2 = "22 GB/s"` to its `bandwidth`
    "#);
    assert_snapshot!(refused_on("library.broadcast = {}", "all-gather", variant), @"
    error: unknown key `broadcast` in `cluster.library`
     --> test.toml:7:9
      |
    7 | library.broadcast = {}
      |         ^^^^^^^^^
      |
      = help: it is a key of `[variant.algorithm]`; the valid keys are `all-gather`, `reduce-scatter`, `all-reduce`, `model`, `gpus`, `nvlink_domain` and `constants`
    ");
}

#[test]
fn reductions_stay_uncompressed_only_beside_calls_that_do_not() {
    let native = "[[variant]]\nname = \"a\"\nprotocol = \"in-band\"\nreductions = \"native\"\n";
    assert_snapshot!(refused_on("", "all-gather", native), @r#"
    error: `variant.0.reductions` has no effect: the workload adds nothing up
      --> test.toml:19:14
       |
    19 | reductions = "native"
       |              ^^^^^^^^
    "#);
    assert_snapshot!(refused_on("", "all-reduce", native), @r#"
    error: `variant.0.reductions` has no effect: the workload has no other calls: that is the protocol `native`
      --> test.toml:19:14
       |
    19 | reductions = "native"
       |              ^^^^^^^^
    "#);
}

#[test]
fn a_library_takes_no_order_adds_up_no_frames_and_is_no_arm() {
    let all = "library = { all-gather = { latency = \"30 us\", bandwidth = \"22 GB/s\" }, \
               all-reduce = { latency = \"30 us\", bandwidth = \"22 GB/s\" } }";
    let variant = |more: &str| format!("[[variant]]\nname = \"a\"\nalgorithm = \"library\"\n{more}\n");
    assert_snapshot!(refused_on(all, "all-gather", &variant("window = 1")), @r#"
    error: `variant.0.window` has no effect: the algorithm `library` leaves no choice of which transfer comes next
      --> test.toml:19:10
       |
    19 | window = 1
       |          ^
       |
       = help: leave `variant.0.window` out, or set `algorithm = "direct"`
    "#);
    assert_snapshot!(refused_on(all, "all-reduce", &variant("protocol = \"size-first\"")), @r#"
    error: algorithm `library` adds up on the way, and frames of protocol `size-first` are decoded at their end
      --> test.toml:18:13
       |
    18 | algorithm = "library"
       |             ^^^^^^^^^
       |
       = help: set `algorithm = "direct"`, which is the default of protocols with frames, or `protocol = "native"`
    "#);
    let arms = "[[variant]]\nname = \"b\"\n[[variant]]\nname = \"c\"\nprotocol = \"adaptive\"\narms = [\"a\", \"b\"]\n";
    let coded = variant("protocol = \"size-first\"");
    assert_snapshot!(refused_on(all, "all-gather", &(coded + arms)), @r#"
    error: variant `a` cannot be an arm: it is coded and calls a library, and a switcher has no model of that
      --> test.toml:25:9
       |
    25 | arms = ["a", "b"]
       |         ^^^
       |
       = help: leave it out, or give it another algorithm; uncompressed calls of a library can be an arm
    "#);
}

#[test]
fn arenas_are_for_calls_that_need_memory_of_their_own() {
    let gather = |variant| refused("all-gather", "bytes_per_rank = \"1 KiB\"", variant);
    assert_snapshot!(gather("arenas = 2"), @"
    error: `variant.0.arenas` has no effect: nothing is coded, handed on or added up, so calls need no memory of their own
      --> test.toml:13:10
       |
    13 | arenas = 2
       |          ^
    ");
    assert_snapshot!(gather("protocol = \"in-band\"\narenas = 0"), @"
    error: `variant.0.arenas` is out of range: `0`
      --> test.toml:14:10
       |
    14 | arenas = 0
       |          ^
       |
       = help: it must be an integer from 1 to 64
    ");
    let sums = flat("kind = \"collective\"\ncollective = \"all-reduce\"\nbytes_per_rank = \"1 KiB\"");
    let experiment = Folder::new().load(&format!("{sums}[[variant]]\nname = \"a\"\narenas = 3\n"));
    assert_eq!(experiment.variants[0].arenas, 3, "what others contribute needs memory, coded or not");
}
