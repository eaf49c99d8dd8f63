//! Layers with experts: their segments, and whose tokens go where.

use zipwire_schedule::Rank;

use crate::common::Folder;
use crate::training::{MODEL, TIMES, moe, names, position, recorded, tokens, training};

#[test]
fn an_iteration_goes_through_the_layers_and_back() {
    let experiment = Folder::new().load(&moe("routing = \"uniform\""));
    let layer = |layer| {
        ["attention", "gate", "dispatch", "experts", "combine"].map(|what| format!("L{layer} {what}"))
    };
    let back = |layer| {
        ["combine", "experts", "dispatch", "gate", "attention"]
            .map(|what| format!("L{layer} {what} backward"))
    };
    let head = ["head".to_owned()];
    let expected: Vec<String> =
        [&layer(0)[..], &layer(1), &head, &back(1), &back(0)].concat().into_iter().collect();
    assert_eq!(names(&experiment), expected);
}

#[test]
fn what_goes_to_the_experts_comes_back() {
    let experiment = Folder::new().load(&moe("routing = { zipf = 1.0 }"));
    for layer in ["L0", "L1"] {
        let dispatch = tokens(&experiment, &format!("{layer} dispatch"));
        assert!(dispatch.rows().into_iter().all(|row| row.sum() == 32 * 2 * 64 * 2), "{dispatch}");
        assert_eq!(tokens(&experiment, &format!("{layer} combine")), dispatch.t());
        // Gradients of what came back go where the tokens went, and the other way round.
        assert_eq!(tokens(&experiment, &format!("{layer} combine backward")), dispatch);
        assert_eq!(tokens(&experiment, &format!("{layer} dispatch backward")), dispatch.t());
    }
    assert_ne!(tokens(&experiment, "L0 dispatch"), tokens(&experiment, "L1 dispatch"));
}

#[test]
fn what_goes_to_the_experts_is_made_of_tokens_if_copies_are_equal() {
    let gate = "routing = { zipf = 1.0, groups = 4, top_groups = 1 }\ntokens = \"shared\"";
    let experiment = Folder::new().load(&moe(gate));
    let work = |segment: &str| &experiment.job().segments[position(&experiment, segment)].work;
    for layer in ["L0", "L1"] {
        let dispatch = format!("{layer} dispatch");
        let map = work(&dispatch).tokens().unwrap();
        assert_eq!(map.bytes(), *tokens(&experiment, &dispatch));
        assert_eq!(work(&format!("{layer} combine backward")).tokens(), Some(map));
        for back in ["combine", "dispatch backward"] {
            assert_eq!(work(&format!("{layer} {back}")).tokens(), None, "rows of experts all differ");
        }
        // A group is the two experts of a rank: both copies of a token go to the same one.
        for src in (0..4).map(Rank) {
            let reached =
                (0..4).map(|rank| (map.distinct(src, &(rank..rank + 1)), map.copies(src, &(rank..rank + 1))));
            assert!(reached.clone().all(|(tokens, copies)| copies == 2 * tokens), "{layer} {src:?}");
            assert_eq!(reached.map(|(tokens, _)| tokens).sum::<u64>(), 32);
        }
    }
    assert_ne!(work("L0 dispatch").tokens(), work("L1 dispatch").tokens());
    let drawn = Folder::new().load(&moe("routing = { zipf = 1.0 }"));
    assert!(drawn.job().segments.iter().all(|segment| segment.work.tokens().is_none()));
}

#[test]
fn micro_batches_have_tokens_of_their_own() {
    let experiment = Folder::new().load(&moe("routing = { zipf = 1.0 }\nmicro_batches = 2"));
    let names = names(&experiment);
    assert_eq!(names.len(), 2 * 21);
    assert_eq!((names[0], names[10], names[21]), ("M0 L0 attention", "M0 head", "M1 L0 attention"));
    assert_ne!(tokens(&experiment, "M0 L0 dispatch"), tokens(&experiment, "M1 L0 dispatch"));
    let single = Folder::new().load(&moe("routing = { zipf = 1.0 }"));
    assert_eq!(tokens(&experiment, "M0 L1 dispatch"), tokens(&single, "L1 dispatch"));
}

#[test]
fn recorded_layers_follow_one_another_and_begin_again() {
    let model = MODEL.replace("layers = 2", "layers = 3");
    for routing in ["{ matrix = \"matrix.jsonl\", step = 2 }", "{ trace = \"trace.csv\" }"] {
        let text =
            training("moe-training", &format!("{model}\ngradients = \"none\"\nrouting = {routing}"), TIMES);
        let experiment = recorded().load(&text);
        // Expert 0 is on rank 0, experts 4 and 5 are on rank 2.
        for (layer, host) in [("L0", 0), ("L1", 2), ("L2", 0)] {
            let dispatch = tokens(&experiment, &format!("{layer} dispatch"));
            assert!(
                dispatch.column(host).iter().all(|&bytes| bytes == 32 * 2 * 64 * 2),
                "{layer} {dispatch}"
            );
        }
        let fixed = text.replace(" }\n[compute]", ", layer = 5 }\n[compute]");
        let experiment = recorded().load(&fixed);
        for layer in ["L0", "L1", "L2"] {
            assert_eq!(tokens(&experiment, &format!("{layer} dispatch")).column(0).sum(), 0, "{layer}");
        }
    }
}

#[test]
fn experts_of_each_layer_can_be_balanced() {
    let text =
        moe("routing = { trace = \"trace.csv\" }\nexperts = { placement = \"balanced\", replicas = 8 }");
    let experiment = recorded().load(&text);
    // The only expert of the first layer has copies everywhere; the two of the second one share the ranks.
    for layer in ["L0", "L1"] {
        let dispatch = tokens(&experiment, &format!("{layer} dispatch"));
        assert!(
            dispatch.columns().into_iter().all(|column| column.sum() == 4 * 16 * 128),
            "{layer} {dispatch}"
        );
    }
}
