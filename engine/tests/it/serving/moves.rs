//! Every byte of every cache is where it belongs.

use zipwire_engine::serving::Coding;
use zipwire_kv::{DType, Geometry};
use zipwire_schedule::Lane;
use zipwire_serving::{FirstToken, Loss, Move, RequestId, Shards, Trouble};

use crate::serving::scenes::{Scene, assert_served, assert_tidy, coding, config, requests, run};

#[track_caller]
fn check(scene: &Scene, codec: Option<Coding>) {
    let mut setup = scene.setup(None);
    let is_coded = codec.is_some();
    setup.coding = codec;
    let served = run(&setup).unwrap();
    assert_served(&served);
    assert_eq!(served.bytes_raw, scene.bytes());
    assert_eq!(served.totals.bytes_verified, scene.bytes());
    if is_coded {
        assert!(served.bytes_wire < served.bytes_raw, "{} of {}", served.bytes_wire, served.bytes_raw);
    } else {
        assert_eq!(served.bytes_wire, served.bytes_raw);
    }
    // What both ends say in the timeline is the same.
    let bytes =
        |lane| served.timeline.spans.iter().filter(move |span| span.lane == lane).map(|span| span.bytes);
    assert_eq!(bytes(Lane::Tx).sum::<u64>(), served.bytes_wire);
    assert_eq!(bytes(Lane::Rx).sum::<u64>(), served.bytes_wire);
}

#[test]
fn grouped_caches_move_between_instances_of_any_width() {
    for ranks in [[1, 1], [2, 1], [1, 2], [4, 2], [2, 4]] {
        check(&Scene::grouped(ranks), None);
        check(&Scene::grouped(ranks), Some(coding("tiered")));
    }
}

#[test]
fn latents_move_to_every_rank() {
    for ranks in [[1, 1], [2, 1], [1, 2], [4, 2]] {
        check(&Scene::latent(ranks), None);
        check(&Scene::latent(ranks), Some(coding("rans")));
    }
}

#[test]
fn codecs_push_and_pull() {
    for codec in ["tiered", "rans"] {
        for moves in Move::ALL {
            for first_token in FirstToken::ALL {
                let mut scene = Scene::grouped([2, 1]);
                scene.config.moves = moves;
                scene.config.first_token = first_token;
                check(&scene, Some(coding(codec)));
            }
        }
    }
}

#[test]
fn a_shard_may_be_coded_as_a_whole() {
    for moves in Move::ALL {
        let mut scene = Scene::grouped([2, 2]);
        scene.config = config(moves);
        check(&scene, Some(Coding { is_pipelined: false, ..coding("tiered") }));
    }
}

#[test]
fn more_groups_of_layers_than_layers_are_no_trouble() {
    let mut scene = Scene::latent([1, 1]);
    scene.config.layer_groups = 7;
    check(&scene, Some(coding("tiered")));
}

/// Two groups at each end, and one sender has as many shards under way as its link holds back.
#[test]
fn buffers_are_two_groups_for_each_open_shard() {
    let mut scene = Scene::latent([1, 1]);
    scene.config.layer_groups = 1;
    scene.config.moves = Move::Pull;
    scene.config.prefill.instances = 1;
    scene.config.decode.instances = 1;
    scene.requests = requests(&[5000], 0.0);
    scene.shards = Shards::latent(3, 192, 1, [1, 1]).unwrap();
    let served = run(&scene.setup(None)).unwrap();
    assert_served(&served);
    let group = 256 * 192;
    assert!(served.totals.buffer_bytes <= 2 * 2 * group, "{:?}", served.totals);
}

/// A sender has 256 shards under way at the most; here it is told to send 366, of which some are cancelled meanwhile.
#[test]
fn shards_wait_for_their_turn() {
    let mut scene = Scene::latent([1, 1]);
    scene.config.layer_groups = 61;
    scene.config.moves = Move::Pull;
    (scene.config.prefill.instances, scene.config.decode.instances) = (1, 1);
    scene.requests = requests(&[300; 6], 0.0);
    scene.shards = Shards::latent(61, 192, 1, [1, 1]).unwrap();
    scene.geometry = Geometry::latent(61, 96, DType::Bf16).unwrap();
    check(&scene, None);
    let mut setup = scene.setup(Some("tiered"));
    setup.time_scale = 1.0;
    let leaves = |request| Trouble { at_s: 0.01, what: Loss::Request(RequestId(request)) };
    let troubles = [leaves(1), leaves(4)];
    setup.troubles = &troubles;
    assert_tidy(&run(&setup).unwrap());
}

#[test]
fn what_is_not_verified_moves_all_the_same() {
    let scene = Scene::grouped([1, 1]);
    let mut setup = scene.setup(Some("tiered"));
    setup.verifies = false;
    let served = run(&setup).unwrap();
    assert_served(&served);
    assert_eq!((served.bytes_raw, served.totals.bytes_verified), (scene.bytes(), 0));
}

#[test]
fn setups_that_do_not_fit_together_are_refused() {
    let (scene, latent) = (Scene::grouped([2, 2]), Scene::latent([2, 2]));
    let mut setup = scene.setup(None);
    setup.geometry = latent.geometry;
    let error = run(&setup).unwrap_err().to_string();
    assert!(error.contains("layers"), "{error}");
    let mut setup = scene.setup(None);
    setup.rows = &latent.rows;
    let error = run(&setup).unwrap_err().to_string();
    assert!(error.contains("planes"), "{error}");
    let error = run(&scene.setup(Some("rans:table=0a1b2c3d"))).unwrap_err().to_string();
    assert!(error.contains("rans"), "{error}");
}
