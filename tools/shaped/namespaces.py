"""Hosts out of network namespaces, their links out of veth pairs with token buckets at both ends.

Hosts and switches are namespaces of their own and links are made between these, so nothing is seen from outside. Their
names carry the process that made them and its start, which tells leftovers of killed runs from hosts in use.
"""

import contextlib
import ctypes
import dataclasses
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMESPACES, TEMPORARY = Path("/run/netns"), Path(tempfile.gettempdir())
LIBC = ctypes.CDLL(None)
CLONE_NEWNET, PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 0x40000000, 1, 36
# Like ssh: AGENT [FLAG...] HOST COMMAND..., HOST being a name or an address. Shared memory is not part of a network
# namespace, so a command gets its own: ranks on different hosts must not meet there. Launchers look up the name h0.
AGENT = """#!/bin/sh
set -e
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1; shift
case $host in *.*) host=h$((${{host##*.}} - 1)) ;; esac
exec ip netns exec {owner}-$host unshare --uts --ipc sh -ec '
    echo "$0" > /proc/sys/kernel/hostname
    mount -t tmpfs tmpfs /dev/shm
    mount --bind {state}/names /etc/hosts
    exec sh -c "$1"' "$host" "$*"
"""
# Seconds of a link's rate that TCP holds for it at each end. The usual limit, 4 MiB, is a moment at 25 GB/s and a third of a
# second at 100 Mbit/s, and a program takes for sent what its end holds: so limits are scaled as links are. With less than two
# queues hold, a link with traffic both ways is idle while answers wait in the full queue of the other way.
HELD_S, QUEUE_S = 0.02, 0.01


@dataclasses.dataclass(frozen=True)
class Network:
    """What to build. Rates are bits per second, of whole Ethernet frames; `slow` maps (host, direction) to a rate."""

    hosts: int
    rate: int
    slow: dict = dataclasses.field(default_factory=dict)
    racks: int = 1
    uplink: int | None = None

    def addresses(self):
        return [f"10.77.0.{host + 1}" for host in range(self.hosts)]


def held(seconds, rate):
    """Bytes that pass a link in a time, within what the system takes."""
    return min(max(int(seconds * rate / 8), 2**16), 2**22)


def refuse(reason):
    print("hosts.py: cannot make hosts on this machine:", *reason.split(), file=sys.stderr)
    sys.exit(77)


def call(*words):
    """One command, which must succeed."""
    try:
        subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        refuse(f"`{shlex.join(words)}`: {getattr(error, 'stderr', None) or error}")


@contextlib.contextmanager
def making(network):
    """Removes what killed runs left, makes hosts, and removes these. Callers block signals, lest they interrupt it."""
    if os.geteuid() != 0:
        refuse("only root may make network namespaces")
    for path in [*NAMESPACES.glob("zipwire-hosts-*"), *TEMPORARY.glob("zipwire-hosts-*")]:
        owner = re.match(r"zipwire-hosts-(\d+)-(\d+)", path.name)
        if owner and start_of(owner[1]) != owner[2]:
            # Another start may do the same at the same time.
            with contextlib.suppress(FileNotFoundError):
                remove(owner[0])
    # Orphans on the hosts become children of this process, which can then wait for them.
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    hosts = Hosts(network)
    try:
        hosts.build()
        yield hosts
    finally:
        remove(hosts.owner)


class Hosts:
    def __init__(self, network):
        self.network = network
        self.owner = f"zipwire-hosts-{os.getpid()}-{start_of(os.getpid())}"
        self.state = TEMPORARY / self.owner
        self.agent = self.state / "agent"

    def build(self):
        # Launchers keep their files in TMPDIR, which goes away with the rest.
        (self.state / "files").mkdir(parents=True, mode=0o700)
        names = [f"{address} h{host}" for host, address in enumerate(self.network.addresses())]
        (self.state / "names").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        self.agent.write_text(AGENT.format(owner=self.owner, state=self.state))
        self.agent.chmod(0o700)
        for rack in range(self.network.racks):
            self.namespace(f"rack{rack}")
            self.ip(f"rack{rack}", "link", "add", "bridge", "up", "type", "bridge")
        for host, address in enumerate(self.network.addresses()):
            name, rack = f"h{host}", f"rack{host * self.network.racks // self.network.hosts}"
            sent, received = [self.network.slow.get((host, way), self.network.rate) for way in ("send", "receive")]
            self.namespace(name)
            most = [held(HELD_S, rate) for rate in (sent, received)]
            self.tcp(name, wmem=f"4096 {2**16} {most[0]}", rmem=f"4096 {2**17} {2 * most[1]}")
            self.link((name, "e0", sent), (rack, name, received))
            self.ip(name, "address", "add", f"{address}/24", "dev", "e0")
        if self.network.racks == 2:
            self.link(("rack0", "uplink", self.network.uplink), ("rack1", "uplink", self.network.uplink))
        call(str(self.agent), "h0", "true")

    def ip(self, name, *words):
        call("ip", "-n", f"{self.owner}-{name}", *words)

    def namespace(self, name):
        call("ip", "netns", "add", f"{self.owner}-{name}")
        self.ip(name, "link", "set", "lo", "up")
        # Machines differ in their default, and with it in how streams share a link. Every kernel has this one.
        self.tcp(name, congestion_control="reno")

    def tcp(self, name, **settings):
        lines = [f"echo {value} > /proc/sys/net/ipv4/tcp_{setting}" for setting, value in settings.items()]
        call("ip", "netns", "exec", f"{self.owner}-{name}", "sh", "-ec", "\n".join(lines))

    def link(self, *ends):
        """A cable between two ends: namespace, interface, and the rate of what leaves there."""
        first, second = [["name", device, "netns", f"{self.owner}-{name}"] for name, device, _ in ends]
        call("ip", "link", "add", *first, "type", "veth", "peer", *second)
        for name, device, rate in ends:
            # Messages much smaller than the bucket pass at once, only larger ones see the rate.
            bucket = ["tbf", "rate", f"{rate}bit", "burst", "256kb", "limit", str(held(QUEUE_S, rate))]
            call("tc", "-n", f"{self.owner}-{name}", "qdisc", "add", "dev", device, "root", *bucket)
            bridge = ["master", "bridge"] if name.startswith("rack") else []
            # Automatic IPv6 addresses would give programs a second network to choose from.
            self.ip(name, "link", "set", device, *bridge, "addrgenmode", "none", "up")

    def start(self, command, env):
        """Starts a command on h0, in a session of its own. It is told to end should this process be killed."""
        def prepare():
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

        words = [str(self.agent), "h0", "exec " + shlex.join(command)]
        return subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=prepare)

    @contextlib.contextmanager
    def inside(self, host):
        """Sockets that this thread opens meanwhile belong to the host, also later."""
        with open("/proc/thread-self/ns/net") as home, open(NAMESPACES / f"{self.owner}-h{host}") as there:
            # Should it fail, addresses of hosts cannot be used, which shows at once.
            LIBC.setns(there.fileno(), CLONE_NEWNET)
            try:
                yield
            finally:
                LIBC.setns(home.fileno(), CLONE_NEWNET)


def start_of(pid):
    """When a process started, in clock ticks since boot, or `None` if it is gone. Process ids are used again."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def remove(owner):
    """Kills every process in an owner's namespaces, then removes these, and with them their links."""
    paths = list(NAMESPACES.glob(owner + "-*"))
    inside = {path.stat().st_ino for path in paths}
    # What is killed may just have started something else, so look until nothing is found, but not for ever.
    patience = time.monotonic() + 10
    while kill(inside) and time.monotonic() < patience:
        time.sleep(0.01)
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < patience:
            os.waitpid(-1, os.WNOHANG)[0] or time.sleep(0.01)
    for path in paths:
        subprocess.run(["ip", "netns", "delete", path.name], capture_output=True)
    shutil.rmtree(TEMPORARY / owner, ignore_errors=True)


def kill(inside):
    """Kills what `ip netns pids` would list, each on sight: a program that forks for ever outruns two steps."""
    found = False
    for process in os.scandir("/proc"):
        # It may end meanwhile, what has ended has no namespaces, and `self` is no number.
        with contextlib.suppress(OSError, ValueError):
            if os.stat(f"/proc/{process.name}/ns/net").st_ino in inside:
                os.kill(int(process.name), signal.SIGKILL)
                found = True
    return found
