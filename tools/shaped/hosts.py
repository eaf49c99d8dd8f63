#!/usr/bin/env python3
"""Runs a command on several hosts that are one Linux machine, with links of a chosen rate between them.

    hosts.py --hosts 4 --rate 200mbit -- COMMAND ARG...     on the first host; {hosts} and {agent} are filled in
    hosts.py --hosts 4 --mpi openmpi -- PROGRAM ARG...      as ranks, one on each host
    hosts.py --hosts 4 --check                              measures the links that it makes

Exit codes: the command's; 77 if such hosts cannot be made here; 124 at the timeout; 128 and more after a signal.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # Nothing is left beside the sources.
from check import check
from namespaces import Network, making

# What is ignored from the start, as under nohup, stays so.
STOPPING = [s for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) != signal.SIG_IGN]
# Open MPI, its launchers of releases 5 and 4, and MPICH. All hosts have the same cores, so ranks are not bound: each
# host would take the first. UCX, which some builds of MPICH use and others libfabric, may copy within a machine. Without
# `send` Open MPI lets the leave to send a message wait behind a message that goes the other way.
MPI = """
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
    OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=e0
    OMPI_MCA_btl_tcp_flags=send
    PRTE_MCA_plm=ssh PRTE_MCA_plm_ssh_agent={agent} PRTE_MCA_plm_ssh_no_tree_spawn=1 PRTE_MCA_prte_if_include=e0
    PRTE_MCA_prte_default_hostfile={state}/openmpi PRTE_MCA_hwloc_default_binding_policy=none
    OMPI_MCA_plm_rsh_agent={agent} OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_MCA_oob_tcp_if_include=e0
    OMPI_MCA_orte_default_hostfile={state}/openmpi OMPI_MCA_hwloc_base_binding_policy=none
    HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC={agent} HYDRA_IFACE=e0 HYDRA_HOST_FILE={state}/mpich
    UCX_TLS=tcp,self UCX_NET_DEVICES=e0 FI_PROVIDER=tcp FI_TCP_IFACE=e0 TMPDIR={state}/files
"""


def watch(timeout_s):
    """A way to pause, and all that can be interrupted: making and removing hosts always goes to its end."""
    end = time.monotonic() + timeout_s
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)

    def pause(seconds):
        if caught := signal.sigtimedwait(STOPPING, max(0, min(seconds, end - time.monotonic()))):
            sys.exit(128 + caught.si_signo)
        if time.monotonic() >= end:
            print("hosts.py: out of time, everything is killed", file=sys.stderr)
            sys.exit(124)
    return pause


def rate(text):
    number = re.fullmatch(r"(\d{1,6})([mg])bit", text)
    if not number or int(number[1]) == 0:
        raise argparse.ArgumentTypeError(f"`{text}` is not a rate such as `200mbit` or `1gbit`")
    return int(number[1]) * {"m": 10**6, "g": 10**9}[number[2]]


def exception(text):
    parts = re.fullmatch(r"(\d+)(?::(send|receive))?=(.+)", text)
    if not parts:
        raise argparse.ArgumentTypeError(f"`{text}` is not like `2=50mbit`, `2:send=50mbit` or `2:receive=50mbit`")
    return [((int(parts[1]), way), rate(parts[3])) for way in ("send", "receive") if parts[2] in (None, way)]


def parse(words):
    # Everything behind the first -- is the command's, further ones included.
    here = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, choices=range(2, 9), default=4)
    parser.add_argument("--rate", type=rate, default="200mbit", help="of every link, each way [200mbit]")
    parser.add_argument("--slow", type=exception, action="extend", default=[], metavar="HOST[:send|:receive]=RATE")
    parser.add_argument("--racks", type=int, choices=[1, 2], default=1, help="hosts in two racks of equal size")
    parser.add_argument("--uplink", type=rate, help="between the racks, each way")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="for all of it [120]")
    parser.add_argument("--mpi", choices=["openmpi", "mpich"], help="start the program with mpirun")
    parser.add_argument("--mpirun", metavar="PATH", default="mpirun", help="that of this MPI [found in PATH]")
    parser.add_argument("--ranks-per-host", type=int, choices=range(1, 9), default=1)
    parser.add_argument("--check", action="store_true", help="measure links; fails if one is off by over 10 %%")
    options = parser.parse_args(words[:here])
    options.command = words[here + 1 :]
    if options.check == bool(options.command):
        parser.error("give either --check or a command behind --")
    if options.check and (options.slow or options.racks == 2):
        parser.error("--check makes a slow host and racks of its own")
    if (options.racks == 2) != (options.uplink is not None):
        parser.error("--racks 2 and --uplink go together")
    if any(host >= options.hosts for (host, _), _ in options.slow):
        parser.error(f"--slow: hosts are 0 to {options.hosts - 1}")
    options.network = Network(options.hosts, options.rate, dict(options.slow), options.racks, options.uplink)
    return options


def environment(hosts, ranks_per_host):
    """What lets any `mpirun` on the first host use all hosts, and nothing but TCP between them, without flags."""
    for file, ranks in [("openmpi", " slots="), ("mpich", ":")]:
        lines = [f"{address}{ranks}{ranks_per_host}\n" for address in hosts.network.addresses()]
        (hosts.state / file).write_text("".join(lines))
    settings = [word.split("=") for word in MPI.split()]
    return os.environ | {name: value.format(agent=hosts.agent, state=hosts.state) for name, value in settings}


def command_of(options, hosts):
    """The command with its placeholders filled in, or the line that starts it as ranks."""
    if not options.mpi:
        values = {"{hosts}": ",".join(hosts.network.addresses()), "{agent}": str(hosts.agent)}
        return [re.sub(r"{hosts}|{agent}", lambda found: values[found[0]], word) for word in options.command]
    words = [options.mpirun, "-n", str(options.hosts * options.ranks_per_host)]
    for name in filter(re.compile("ZIPWIRE_").match, sorted(os.environ)):
        words += ["-x", name] if options.mpi == "openmpi" else ["-genv", name, os.environ[name]]
    return words + options.command


def main():
    options = parse(sys.argv[1:])
    pause = watch(options.timeout)
    if options.check:
        return check(options.hosts, options.rate, pause)
    with making(options.network) as hosts:
        child = hosts.start(command_of(options, hosts), environment(hosts, options.ranks_per_host))
        try:
            while child.poll() is None:
                pause(0.02)
        finally:
            # Whether it heeds the first or needs the second: what it has started dies with the hosts.
            for deadly in [signal.SIGTERM, signal.SIGKILL]:
                if child.poll() is None:
                    os.killpg(child.pid, deadly)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(2)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main())
