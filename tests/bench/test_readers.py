"""What the bench reads of processes, of the kernel and of the program."""

import os
import socket
import struct

import pytest

from bench.perf import sockets, usage
from bench.perf.scrape import Scrape
from bench.perf.sockets import Connection

TICKS = os.sysconf("SC_CLK_TCK")


def test_cpu_is_user_and_kernel_time_whatever_the_program_is_named():
    fields = ["S", "1", *("0" for _ in range(9)), "150", "50", *("7" for _ in range(30))]
    assert usage.cpu_of_stat(f"42 (a) b) {' '.join(fields)}") == 200 / TICKS


def test_memory_is_in_mebibytes_now_and_at_its_peak():
    text = "Name:\tx\nVmPeak:\t 9999 kB\nVmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\nThreads:\t1\n"
    assert usage.memory_of_status(text) == (2.0, 4.0)


def test_a_process_that_has_ended_has_no_memory():
    with pytest.raises(KeyError):
        usage.memory_of_status("Name:\tx\nState:\tZ (zombie)\n")


def test_time_that_a_core_waits_for_a_disk_is_idle_too():
    assert usage.idle_of_stat("cpu  10 0 20 300 40 0 0 0 0 0\ncpu0 1 0 2 30 4") == 340 / TICKS


def test_our_own_process_has_used_something():
    found = usage.of(os.getpid())
    assert found.cpu > 0
    assert 0 < found.rss <= found.peak


def message(port, inode, info):
    """One answer of the kernel about one socket."""
    address = struct.pack(">HH", 40000, port) + bytes(44)
    body = bytes(4) + address + bytes(16) + struct.pack("=I", inode)
    other = struct.pack("=HH", 7, 8) + b"abc\0"  # 7 bytes long, and one that fills it up
    attribute = struct.pack("=HH", 4 + len(info), 2) + info
    length = 16 + len(body) + len(other) + len(attribute)
    return struct.pack("=IHHII", length, 20, 2, 1, 1) + body + other + attribute


def test_bytes_are_read_out_of_the_kernels_answer_whatever_stands_before_them():
    info = bytes(120) + struct.pack("=QQ", 1111, 2222) + bytes(8)
    data = message(6443, 77, info) + message(443, 78, info)
    found = dict(sockets.connections(data + struct.pack("=IHHII", 20, 3, 2, 1, 1) + bytes(4)))
    assert found == {77: Connection(6443, 1111, 2222), 78: Connection(443, 1111, 2222)}


def test_half_an_answer_is_no_connection():
    assert list(sockets.connections(b"\0" * 15)) == []


def test_only_what_was_moved_in_between_counts_and_a_new_connection_counts_whole():
    before = {1: Connection(443, 100, 200), 2: Connection(443, 5, 5)}
    after = {1: Connection(443, 150, 900), 3: Connection(443, 7, 8)}
    assert sockets.moved(before, after) == (57, 708)


def test_the_kernel_tells_the_bytes_of_a_real_connection_of_ours():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            other, _ = server.accept()
            with other:
                client.sendall(b"x" * 100)
                other.recv(100)
                other.sendall(b"y" * 7)
                client.recv(7)
                (found,) = sockets.of(os.getpid(), {port}).values()
    assert (found.port, found.received) == (port, 7)
    assert 100 <= found.sent <= 101  # the kernel counts the first packet of a connection, too


EXPOSITION = """
# TYPE dwd_probes_total counter
dwd_probes_total{probe="apiserver",result="success"} 5
dwd_probes_total{probe="lease",result="success"} 4
dwd_probes_total{probe="lease",result="error"} 1
# TYPE dwd_probe_lag_seconds histogram
dwd_probe_lag_seconds_bucket{le="0.1"} 3
dwd_probe_lag_seconds_bucket{le="+Inf"} 4
dwd_probe_lag_seconds_sum 1.5
dwd_probe_lag_seconds_count 4
"""


def test_samples_are_summed_over_the_labels_that_are_left_open():
    found = Scrape.parse(EXPOSITION)
    assert found.total("dwd_probes_total") == 10
    assert found.total("dwd_probes_total", probe="lease") == 5
    assert found.total("dwd_probes_total", probe="endpoint") == 0


def test_a_histogram_is_read_by_its_bounds():
    lag = Scrape.parse(EXPOSITION).buckets("dwd_probe_lag_seconds")
    assert lag.cumulative == {0.1: 3.0, float("inf"): 4.0}
