"""Measures what TCP carries over the links, against what was asked for, with sockets of all hosts in one process."""

import contextlib
import select
import socket
import time

from namespaces import Network, making

# Token buckets count the 1514 bytes of a full Ethernet frame, of which 1448 are the user's.
PAYLOAD, TOLERANCE = 1448 / 1514, 0.1
# Streams first fill queues and the token buckets, which begin full, empty.
SETTLE_S, MEASURE_S = 0.6, 1.4
BLOCK = bytes(1 << 18)


def check(count, rate, pause):
    """Builds the three networks, prints a row per case, and returns the exit code."""
    print(f"{'Mbit/s of each stream':37} streams expected measured   lowest  highest")
    right = True
    for network, cases in networks(count, rate):
        with making(network) as hosts:
            for name, rounds, expected in cases:
                rates = [each for streams in rounds for each in measure(hosts, streams, pause)]
                numbers = [expected * PAYLOAD, sum(rates) / len(rates), min(rates), max(rates)]
                right &= (fits := abs(numbers[1] / numbers[0] - 1) <= TOLERANCE)
                columns = " ".join(f"{number / 1e6:8.1f}" for number in numbers)
                print(f"{name:37} {len(rates):7} {columns}{'' if fits else ' OFF'}", flush=True)
    return 0 if right else 1


def networks(count, rate):
    """Networks, each with cases: a name, rounds of (source, destination) pairs, and the share of a stream."""
    others = range(1, min(count, 4))
    shifted = [[(host, (host + shift) % count) for host in range(count)] for shift in range(1, count)]
    yield Network(count, rate), [
        ("one stream", [[(0, 1)]], rate),
        (f"incast of {len(others)}", [[(host, 0) for host in others]], rate / len(others)),
        ("all-to-all in shifted rounds", shifted, rate),
    ]
    last, quarter = count - 1, rate // 4
    yield Network(count, rate, {(last, "send"): quarter, (last, "receive"): quarter}), [
        ("to a host of a quarter of the rate", [[(0, last)]], quarter),
        ("from that host", [[(last, 0)]], quarter),
        *([("between others", [[(0, 1)]], rate)] if last > 1 else []),
    ]
    left, right = range((count + 1) // 2), range((count + 1) // 2, count)
    yield Network(count, rate, racks=2, uplink=rate), [
        ("between racks, one link of the rate", [list(zip(left, right))], rate / len(right)),
        *([("within a rack", [[(0, 1)]], rate)] if len(left) > 1 else []),
    ]


def measure(hosts, streams, pause):
    """Bits per second that arrive in each of several streams at once."""
    with contextlib.ExitStack() as opened:
        senders, receivers = [], []
        for source, destination in streams:
            with hosts.inside(destination):
                listener = opened.enter_context(socket.create_server((hosts.network.addresses()[destination], 0)))
            with hosts.inside(source):
                senders.append(opened.enter_context(socket.create_connection(listener.getsockname(), timeout=5)))
            receivers.append(opened.enter_context(listener.accept()[0]))
        for seconds in [SETTLE_S, MEASURE_S]:
            arrived = dict.fromkeys(receivers, 0)
            began = time.monotonic()
            while (passed := time.monotonic() - began) < seconds:
                pause(0)
                readable, writable, _ = select.select(receivers, senders, [], seconds - passed)
                for connection in writable:
                    connection.send(BLOCK)
                for connection in readable:
                    arrived[connection] += len(connection.recv(len(BLOCK)))
        return [8 * size / passed for size in arrived.values()]
