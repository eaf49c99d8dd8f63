//! Where requests go, in cases that are small enough to follow by hand.

use zipwire_serving::{
    Config, FailReason, FirstToken, FlowId, Input, Machine, Moment, Move, Placement, Pool, Request,
    RequestId, Requests, Step,
};

/// Nothing moves: requests of one token that prefill makes, unless a test says otherwise.
const CONFIG: Config = Config {
    prefill: Pool { instances: 2, kv_tokens: 1000, sequences: 0 },
    decode: Pool { instances: 2, kv_tokens: 1000, sequences: 8 },
    placement: Placement::LeastLoaded,
    moves: Move::Pull,
    first_token: FirstToken::Prefill,
    layer_groups: 1,
    chunk_tokens: 1000,
    cached_blocks: 0,
};

/// Requests of `(input tokens, output tokens, prefix)`, with blocks of ten tokens.
fn requests(list: &[(u32, u32, &[u64])]) -> Requests {
    let request = |&(input_tokens, output_tokens, prefix): &(u32, u32, &[u64])| Request {
        arrival_s: 0.0,
        input_tokens,
        output_tokens,
        prefix: prefix.to_vec(),
    };
    Requests::new(list.iter().map(request).collect(), 10)
}

/// Steps that follow from an input.
fn tell(machine: &mut Machine<'_>, input: Input) -> Vec<Step> {
    machine.handle(input);
    std::iter::from_fn(|| machine.poll()).collect()
}

fn arrive(machine: &mut Machine<'_>, request: u32) -> Vec<Step> {
    tell(machine, Input::Arrived(RequestId(request)))
}

/// Which requests begin with prefill, on which instance, and what is there of them.
fn begun(steps: &[Step]) -> Vec<(u32, u32, u32)> {
    let begun = |step: &Step| match *step {
        Step::Note(request, Moment::PrefillBegun { instance, cached_tokens }) => {
            Some((request.0, instance, cached_tokens))
        }
        _ => None,
    };
    steps.iter().filter_map(begun).collect()
}

/// Which requests a decode instance has room for, and which one.
fn admitted(steps: &[Step]) -> Vec<(u32, u32)> {
    let admitted = |step: &Step| match *step {
        Step::Note(request, Moment::Admitted { instance }) => Some((request.0, instance)),
        _ => None,
    };
    steps.iter().filter_map(admitted).collect()
}

fn flows(steps: &[Step]) -> Vec<FlowId> {
    steps.iter().filter_map(|step| if let Step::Move(id, _) = step { Some(*id) } else { None }).collect()
}

fn computed(machine: &mut Machine<'_>, instance: u32) -> Vec<Step> {
    tell(machine, Input::Computed { instance })
}

#[test]
fn round_robin_takes_turns_whatever_the_load() {
    let requests = requests(&[(900, 1, &[]), (1, 1, &[]), (1, 1, &[]), (1, 1, &[])]);
    let mut machine = Machine::new(&requests, Config { placement: Placement::RoundRobin, ..CONFIG });
    assert_eq!(begun(&arrive(&mut machine, 0)), [(0, 0, 0)]);
    assert_eq!(begun(&arrive(&mut machine, 1)), [(1, 1, 0)]);
    assert_eq!(begun(&arrive(&mut machine, 2)), [], "behind the long one");
    assert_eq!(begun(&computed(&mut machine, 1)), [], "instance 1 has no other");
    assert_eq!(begun(&arrive(&mut machine, 3)), [(3, 1, 0)]);
    assert_eq!(begun(&computed(&mut machine, 0)), [(2, 0, 0)]);
}

#[test]
fn round_robin_leaves_out_who_is_lost() {
    let requests = requests(&[(1, 1, &[]), (1, 1, &[]), (1, 1, &[])]);
    let mut machine = Machine::new(&requests, Config { placement: Placement::RoundRobin, ..CONFIG });
    tell(&mut machine, Input::PrefillLost { instance: 0 });
    assert_eq!(begun(&arrive(&mut machine, 0)), [(0, 1, 0)]);
    arrive(&mut machine, 1);
    assert_eq!(begun(&computed(&mut machine, 1)), [(1, 1, 0)]);
}

#[test]
fn the_least_loaded_has_the_fewest_tokens_to_do() {
    let requests = requests(&[(500, 1, &[]), (200, 1, &[]), (200, 1, &[]), (200, 1, &[]), (1, 1, &[])]);
    let mut machine = Machine::new(&requests, CONFIG);
    assert_eq!(begun(&arrive(&mut machine, 0)), [(0, 0, 0)]);
    assert_eq!(begun(&arrive(&mut machine, 1)), [(1, 1, 0)]);
    // 500 against 200, then 500 against 400: instance 1 each time; then 500 against 600.
    (2..4).for_each(|request| assert_eq!(begun(&arrive(&mut machine, request)), []));
    arrive(&mut machine, 4);
    assert_eq!(begun(&computed(&mut machine, 0)), [(4, 0, 0)]);
    assert_eq!(begun(&computed(&mut machine, 1)), [(2, 1, 0)]);
    assert_eq!(begun(&computed(&mut machine, 1)), [(3, 1, 0)]);
}

#[test]
fn what_is_cached_counts_as_done_and_a_long_queue_outweighs_it() {
    let (own, other): (&[u64], &[u64]) = (&[1, 2, 3, 4, 5], &[9]);
    let list = [(50, 1, own), (10, 1, other), (50, 1, own), (60, 1, own), (900, 1, own), (50, 1, own)];
    let requests = requests(&list);
    let config = Config { placement: Placement::PrefixAware, cached_blocks: 100, ..CONFIG };
    let mut machine = Machine::new(&requests, config);
    assert_eq!(begun(&arrive(&mut machine, 0)), [(0, 0, 0)]);
    assert_eq!(begun(&arrive(&mut machine, 1)), [(1, 1, 0)]);
    computed(&mut machine, 0);
    // All of it is on instance 0, but the last token is computed.
    assert_eq!(begun(&arrive(&mut machine, 2)), [(2, 0, 49)]);
    computed(&mut machine, 1);
    computed(&mut machine, 0);
    assert_eq!(begun(&arrive(&mut machine, 3)), [(3, 0, 50)]);
    // 10 + 850 tokens on instance 0 against 900 on instance 1.
    assert_eq!(begun(&arrive(&mut machine, 4)), []);
    // 860 + 1 against 50.
    assert_eq!(begun(&arrive(&mut machine, 5)), [(5, 1, 0)]);
    assert_eq!(begun(&computed(&mut machine, 0)), [(4, 0, 50)]);
}

/// Other placements use what is there, too; they only do not look for it.
#[test]
fn all_placements_use_caches_and_only_one_looks_for_them() {
    let (own, other): (&[u64], &[u64]) = (&[1], &[9]);
    for placement in Placement::ALL {
        let requests = requests(&[(20, 1, own), (10, 1, other), (20, 1, other)]);
        let mut machine = Machine::new(&requests, Config { placement, cached_blocks: 100, ..CONFIG });
        arrive(&mut machine, 0);
        arrive(&mut machine, 1);
        computed(&mut machine, 0);
        computed(&mut machine, 1);
        let expected = if placement == Placement::PrefixAware { (2, 1, 10) } else { (2, 0, 0) };
        assert_eq!(begun(&arrive(&mut machine, 2)), [expected], "{placement:?}");
    }
}

#[test]
fn of_a_shared_queue_who_is_free_takes_the_first() {
    let requests = requests(&[(900, 1, &[]), (1, 1, &[]), (500, 1, &[]), (1, 1, &[])]);
    let mut machine = Machine::new(&requests, Config { placement: Placement::SharedQueue, ..CONFIG });
    assert_eq!(begun(&arrive(&mut machine, 0)), [(0, 0, 0)]);
    assert_eq!(begun(&arrive(&mut machine, 1)), [(1, 1, 0)]);
    (2..4).for_each(|request| assert_eq!(begun(&arrive(&mut machine, request)), []));
    assert_eq!(begun(&computed(&mut machine, 1)), [(2, 1, 0)]);
    assert_eq!(begun(&computed(&mut machine, 0)), [(3, 0, 0)]);
}

/// Both instances hold caches that wait for decode, and the head fits only one of them once that is free: the next one fits the other.
#[test]
fn who_takes_the_first_of_a_shared_queue_lets_others_take_the_next() {
    let list = [(600, 2, &[] as &[u64]), (600, 2, &[]), (700, 1, &[]), (300, 1, &[])];
    let requests = requests(&list);
    let decode = Pool { instances: 1, kv_tokens: 700, sequences: 8 };
    let mut machine = Machine::new(&requests, Config { placement: Placement::SharedQueue, decode, ..CONFIG });
    (0..4).for_each(|request| drop(arrive(&mut machine, request)));
    let first = flows(&computed(&mut machine, 0));
    computed(&mut machine, 1);
    assert_eq!(begun(&tell(&mut machine, Input::Moved(first[0]))), [(2, 0, 0), (3, 1, 0)]);
}

/// A request that does not fit blocks those behind it until it is cancelled.
#[test]
fn who_blocks_a_queue_blocks_nobody_once_it_is_cancelled() {
    for placement in Placement::ALL {
        let requests = requests(&[(600, 2, &[]), (600, 2, &[]), (700, 1, &[]), (300, 1, &[])]);
        let prefill = Pool { instances: 1, ..CONFIG.prefill };
        let decode = Pool { kv_tokens: 700, ..CONFIG.decode };
        let mut machine = Machine::new(&requests, Config { placement, prefill, decode, ..CONFIG });
        (0..4).for_each(|request| drop(arrive(&mut machine, request)));
        assert_eq!(begun(&computed(&mut machine, 0)), []);
        assert_eq!(begun(&tell(&mut machine, Input::Cancelled(RequestId(1)))), [], "700 do not fit");
        let after = begun(&tell(&mut machine, Input::Cancelled(RequestId(2))));
        assert_eq!(after, [(3, 0, 0)], "{placement:?}");
    }
}

#[test]
fn decode_goes_to_the_instance_with_the_least_reserved_and_blocks_in_order() {
    let requests = requests(&[(500, 2, &[]), (300, 2, &[]), (400, 2, &[]), (900, 2, &[]), (10, 2, &[])]);
    let config = Config { moves: Move::Push, ..CONFIG };
    let mut machine = Machine::new(&requests, config);
    let admissions: Vec<_> = (0..5).map(|request| admitted(&arrive(&mut machine, request))).collect();
    // 502 | 302, then 704 on the second; 902 fits nowhere, and the small one behind it waits.
    assert_eq!(admissions, [vec![(0, 0)], vec![(1, 1)], vec![(2, 1)], vec![], vec![]]);
    let after = tell(&mut machine, Input::Cancelled(RequestId(3)));
    assert_eq!(admitted(&after), [(4, 0)]);
}

#[test]
fn what_fits_no_instance_fails_at_once() {
    let list = [(1001, 1, &[] as &[u64]), (990, 11, &[]), (990, 10, &[]), (1000, 1, &[])];
    let requests = requests(&list);
    let mut machine = Machine::new(&requests, CONFIG);
    let is_too_large: Vec<bool> = (0..4)
        .map(|request| {
            let failed = Step::Note(RequestId(request), Moment::Failed(FailReason::TooLarge));
            arrive(&mut machine, request).contains(&failed)
        })
        .collect();
    assert_eq!(is_too_large, [true, true, false, false], "one token needs no room of decode");
}

/// The step that runs writes to the cache of a cancelled sequence, so nobody else gets its room before the step has ended.
#[test]
fn the_room_of_a_cancelled_sequence_is_free_when_its_step_has_ended() {
    let requests = requests(&[(600, 9, &[]), (600, 9, &[])]);
    let decode = Pool { instances: 1, ..CONFIG.decode };
    let mut machine = Machine::new(&requests, Config { decode, ..CONFIG });
    arrive(&mut machine, 0);
    arrive(&mut machine, 1);
    let first = flows(&computed(&mut machine, 0));
    computed(&mut machine, 1);
    tell(&mut machine, Input::Moved(first[0]));
    let cancelled = tell(&mut machine, Input::Cancelled(RequestId(0)));
    assert_eq!(admitted(&cancelled), []);
    assert_eq!(machine.decode_kv_tokens().collect::<Vec<_>>(), [609]);
    let stepped = tell(&mut machine, Input::Stepped { instance: 0 });
    assert!(stepped.contains(&Step::Tokens { instance: 0, continuing: 0 }), "nobody waits for the token");
    assert_eq!(admitted(&stepped), [(1, 0)]);
}

/// A driver may tell of the end of a flow that it has not yet been told to stop; that ends no other flow.
#[test]
fn the_id_of_a_stopped_flow_is_used_again_when_the_driver_knows() {
    let requests = requests(&[(600, 9, &[]), (600, 9, &[])]);
    let decode = Pool { instances: 1, ..CONFIG.decode };
    let mut machine = Machine::new(&requests, Config { decode, ..CONFIG });
    arrive(&mut machine, 0);
    arrive(&mut machine, 1);
    let first = flows(&computed(&mut machine, 0))[0];
    computed(&mut machine, 1);
    machine.handle(Input::Cancelled(RequestId(0)));
    let steps = tell(&mut machine, Input::Moved(first));
    assert!(steps.contains(&Step::Stop(first)));
    let second = flows(&steps);
    assert!(second.len() == 1 && second[0] != first, "{second:?}");
    assert!(tell(&mut machine, Input::Moved(second[0])).contains(&Step::Note(RequestId(1), Moment::Moved)));
}
