"""The kinds of hostile answers, each as small as it can be said; `KINDS` has them all by name."""

import functools
import gzip
import json
import time
from collections.abc import Callable
from typing import Final

from bench.hostile.talk import CHUNKED, Talk, crumbs, good, head, lease_list, listed, node_list

Kind = Callable[[Talk], None]
"""Answers one request, or does not."""

MIB: Final = 1 << 20
_MOST: Final = 64 * MIB
KINDS: Final[dict[str, Kind]] = {}


def kind(function: Kind) -> Kind:
    """One more, by its name."""
    KINDS[function.__name__.replace("_", "-")] = function
    return function


def lists(function: Kind) -> Kind:
    """One that answers `/version` as it should: what it does, it does to lists."""

    def answer(talk: Talk) -> None:
        if talk.asked == "version":
            talk.behave()
        else:
            function(talk)

    KINDS[function.__name__.replace("_", "-")] = answer
    return answer


@functools.cache
def _padded(asked: str, size: int) -> bytes:
    """A good answer with so many bytes of white space before its end: only its length is wrong."""
    body = good(asked)
    return body[:-1] + b" " * (size - len(body)) + b"}"


# How it comes: chunks, records, pieces.


@kind
def chunks_of_one_byte(talk: Talk) -> None:
    talk.send(CHUNKED + crumbs(_padded(talk.asked, MIB)) + b"0\r\n\r\n")


@kind
def chunks_of_one_byte_without_end(talk: Talk) -> None:
    talk.send(CHUNKED)
    part = crumbs(b" " * MIB)
    while True:
        talk.send(part)


@kind
def chunks_of_sixty_bytes(talk: Talk) -> None:
    talk.send(CHUNKED + crumbs(_padded(talk.asked, 8 * MIB), 60) + b"0\r\n\r\n")


@kind
def chunks_of_a_hundred_bytes(talk: Talk) -> None:
    talk.send(CHUNKED + crumbs(_padded(talk.asked, 32 * MIB), 100) + b"0\r\n\r\n")


@kind
def chunks_of_one_byte_in_records_of_their_own(talk: Talk) -> None:
    talk.send(CHUNKED)
    while True:
        talk.records(crumbs(b" " * 8192), 6)


@kind
def chunk_extensions(talk: Talk) -> None:
    talk.send(CHUNKED + crumbs(_padded(talk.asked, MIB), 1, b";name=" + b"x" * 100) + b"0\r\n\r\n")


@kind
def a_chunk_extension_without_end(talk: Talk) -> None:
    talk.send(CHUNKED + b"1;name=")
    while True:
        talk.send(b"x" * MIB)


@kind
def trailers_without_end(talk: Talk) -> None:
    talk.send(CHUNKED + crumbs(good(talk.asked), 4096) + b"0\r\n")
    while True:
        talk.send(b"Trailer: x\r\n" * 4096)


@kind
def chunk_sizes_beyond_numbers(talk: Talk) -> None:
    talk.send(CHUNKED + b"f" * 17 + b"\r\n")


@kind
def chunk_sizes_of_many_digits(talk: Talk) -> None:
    talk.send(CHUNKED)
    while True:
        talk.send(b"0" * MIB)


@kind
def records_of_one_byte(talk: Talk) -> None:
    body = _padded(talk.asked, MIB)
    talk.records(head("200 OK", {"Content-Length": str(len(body))}) + body)


@kind
def records_of_one_byte_without_end(talk: Talk) -> None:
    talk.send(head("200 OK", {"Content-Length": str(_MOST)}))
    for _ in range(_MOST >> 16):
        talk.records(b" " * (1 << 16))


@kind
def records_of_two_hundred_bytes(talk: Talk) -> None:
    body = _padded(talk.asked, 32 * MIB)
    talk.send(head("200 OK", {"Content-Length": str(len(body))}))
    for start in range(0, len(body), 1 << 16):
        talk.records(body[start : start + (1 << 16)], 200)


@kind
def a_byte_a_second(talk: Talk) -> None:
    talk.send(head("200 OK", {"Content-Length": "1000"}))
    talk.segments(b" " * 1000, 1, 1.0)


@kind
def a_byte_a_millisecond(talk: Talk) -> None:
    talk.send(head("200 OK", {"Content-Length": "100000"}))
    talk.segments(b" " * 100_000, 1, 0.001)


@kind
def two_hundred_bytes_at_once_and_at_once_again(talk: Talk) -> None:
    talk.send(head("200 OK", {"Content-Length": str(_MOST)}))
    talk.segments(b" " * _MOST, 200, 0.0)


@kind
def chunks_of_one_byte_in_segments_of_their_own(talk: Talk) -> None:
    talk.send(CHUNKED)
    while True:
        talk.segments(crumbs(b" " * 8192), 6, 0.0)


@lists
def nodes_in_chunks_of_a_hundred_bytes(talk: Talk) -> None:
    if talk.asked == "nodes":
        talk.send(CHUNKED + crumbs(_padded("nodes", 60 * MIB), 100) + b"0\r\n\r\n")
    else:
        talk.behave()


# Heads.


@kind
def huge_headers(talk: Talk) -> None:
    fields = {f"X-{number}": "x" * 8000 for number in range(120)}
    talk.answer(good(talk.asked), **fields)


@kind
def cookies_of_escapes(talk: Talk) -> None:
    cookie = 'a="' + "\\" * 6_000 + '"'
    fields = "".join(f"Set-Cookie: {cookie}\r\n" for _ in range(60))
    body = good(talk.asked)
    talk.send(
        b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n" % (fields.encode(), len(body)) + body
    )


@kind
def a_date_of_comments(talk: Talk) -> None:
    talk.answer(good(talk.asked), Date="(" * 4_000 + "\\" * 4_000)


@kind
def a_pause_of_digits(talk: Talk) -> None:
    refused = b"HTTP/1.1 429 no\r\nRetry-After: %b\r\nContent-Length: 0\r\n\r\n"
    talk.send(refused % (b"9" * 8_000))


@kind
def a_content_type_of_parameters(talk: Talk) -> None:
    kind_of_answer = 'application/json;a="' + "a*0*=%c3;" * 880
    talk.answer(good(talk.asked), **{"Content-Type": kind_of_answer})


@kind
def links_without_end(talk: Talk) -> None:
    talk.answer(good(talk.asked), Link="<a>;" * 2_000, Location="https://" + "[" * 4_000)


@kind
def a_header_without_end(talk: Talk) -> None:
    talk.send(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        talk.send(b"x" * MIB)


@kind
def headers_without_end(talk: Talk) -> None:
    talk.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        talk.send(b"X: y\r\n" * 10_000)


@kind
def a_header_in_records_of_one_byte(talk: Talk) -> None:
    talk.send(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        talk.records(b"x" * 4096 + b"\r\nX: ")


@kind
def a_reason_without_end(talk: Talk) -> None:
    talk.send(b"HTTP/1.1 200 ")
    while True:
        talk.send(b"x" * MIB)


@kind
def interim_answers_without_end(talk: Talk) -> None:
    while True:
        talk.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000)


@kind
def early_hints_without_end(talk: Talk) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\n" + b"Link: </x>\r\n" * 100 + b"\r\n"
    while True:
        talk.send(hints * 100)


@kind
def other_protocols(talk: Talk) -> None:
    talk.send(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    while True:
        talk.send(b"\x82\x00" * MIB)


@kind
def no_http(talk: Talk) -> None:
    while True:
        talk.send(bytes(range(256)) * 4096)


@kind
def a_redirect(talk: Talk) -> None:
    talk.answer(b"", "302 Found", Location="https://127.0.0.1:6443/version")


@kind
def a_body_where_there_is_none(talk: Talk) -> None:
    talk.send(head("204 No Content", {}))
    while True:
        talk.send(b"x" * MIB)


@kind
def a_refusal_without_end(talk: Talk) -> None:
    talk.send(head("500 Internal Server Error", {"Transfer-Encoding": "chunked"}))
    while True:
        talk.send(crumbs(b'{"message":"' + b"x" * 65_536))


@kind
def throttled_for_ever(talk: Talk) -> None:
    talk.answer(b"{}", "429 Too Many Requests", Retry_After="9" * 4000)


@kind
def the_wrong_date(talk: Talk) -> None:
    talk.answer(b"{}", "429 Too Many Requests", Retry_After="x, " * 2000, Date="Mon, " * 1500)


# Lengths and ends.


@kind
def compressed(talk: Talk) -> None:
    talk.answer(gzip.compress(b" " * MIB), Content_Encoding="gzip")


@kind
def compressed_on_the_way(talk: Talk) -> None:
    body = gzip.compress(b" " * MIB)
    talk.send(
        head("200 OK", {"Transfer-Encoding": "gzip, chunked"}) + crumbs(body, 4096) + b"0\r\n\r\n"
    )


@kind
def two_lengths(talk: Talk) -> None:
    talk.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 30000\r\n\r\n" + b" " * 30_000
    )


@kind
def a_length_beyond_numbers(talk: Talk) -> None:
    talk.send(head("200 OK", {"Content-Length": "9" * 40}) + b" " * MIB)


@kind
def more_than_it_said(talk: Talk) -> None:
    talk.answer(good(talk.asked))
    while True:
        talk.send(b"x" * MIB)


@kind
def answers_that_nobody_asked_for(talk: Talk) -> None:
    talk.answer(good(talk.asked))
    while True:
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" * 10_000)


@kind
def less_than_it_said(talk: Talk) -> None:
    talk.send(head("200 OK", {"Content-Length": "1000000"}) + b" " * 500_000)
    talk.end()


@kind
def an_end_after_the_head(talk: Talk) -> None:
    talk.send(head("200 OK", {"Content-Length": "1000000"}))
    talk.end()


@kind
def an_end(talk: Talk) -> None:
    talk.end()


@kind
def silence(talk: Talk) -> None:
    talk.nothing()


@kind
def a_body_until_the_end(talk: Talk) -> None:
    talk.send(b"HTTP/1.0 200 OK\r\n\r\n")
    while True:
        talk.send(b" " * MIB)


# TLS.


@kind
def key_updates_without_end(talk: Talk) -> None:
    talk.behave()
    while True:
        talk.key_update()


@kind
def key_updates_instead_of_an_answer(talk: Talk) -> None:
    while True:
        talk.key_update()


@kind
def handshakes_again(talk: Talk) -> None:
    talk.renegotiate()
    talk.nothing()


@kind
def a_large_group(talk: Talk) -> None:
    talk.behave()
    talk.end()


@kind
def tickets(talk: Talk) -> None:
    talk.behave()
    talk.end()


# JSON.


@kind
def brackets(talk: Talk) -> None:
    talk.answer(b"[" * MIB)


@kind
def deep_objects(talk: Talk) -> None:
    talk.answer(b'{"a":' * 900 + b"1" + b"}" * 900)


@kind
def deep_where_nobody_looks(talk: Talk) -> None:
    talk.answer(b'{"x":' + b"[" * 500_000 + b"]" * 500_000 + b"}")


@kind
def many_small_depths(talk: Talk) -> None:
    deep = b"[" * 900 + b"]" * 900
    talk.answer(b'{"gitVersion":"v1","x":[' + b",".join([deep] * 550) + b"]}")


@lists
def deep_items(talk: Talk) -> None:
    deep = b"[" * 900 + b"]" * 900
    talk.answer(b'{"kind":"NodeList","x":[' + b",".join([deep] * 35_000) + b"]}")


@kind
def a_huge_number(talk: Talk) -> None:
    talk.answer(b'{"gitVersion":' + b"9" * 1_000_000 + b"}")


@lists
def huge_numbers(talk: Talk) -> None:
    items = b'{"metadata":{"name":"n"},"spec":{"leaseDurationSeconds":%s}}' % (b"9" * 4000)
    talk.answer(b'{"kind":"LeaseList","items":[' + b",".join([items] * 1900) + b"]}")


@lists
def huge_fractions(talk: Talk) -> None:
    items = b'{"metadata":{"name":"n"},"spec":{"leaseDurationSeconds":0.%s}}' % (b"123456789" * 400)
    talk.answer(b'{"kind":"LeaseList","items":[' + b",".join([items] * 2000) + b"]}")


@lists
def a_list_of_numbers(talk: Talk) -> None:
    number = b"1." + b"7" * 30 + b"e-300,"
    talk.answer(b'{"kind":"NodeList","x":[' + number * (60 * MIB // len(number)) + b"1]}")


@lists
def the_same_key(talk: Talk) -> None:
    talk.answer(b"{" + b'"metadata":{},' * 500_000 + b'"kind":"LeaseList"}')


@lists
def the_same_items(talk: Talk) -> None:
    part = b'"items":[{"metadata":{"name":"n"}}],'
    talk.answer(b"{" + part * (60 * MIB // len(part)) + b'"kind":"NodeList"}')


@lists
def unknown_keys(talk: Talk) -> None:
    keys = b",".join(b'"%x":0' % number for number in range(5_000_000))
    talk.answer(b'{"kind":"NodeList",' + keys + b"}")


@lists
def white_space(talk: Talk) -> None:
    talk.answer(_padded(talk.asked, _MOST))


@lists
def a_string_of_escapes(talk: Talk) -> None:
    talk.answer(b'{"kind":"' + rb"\u0041" * (60 * MIB // 6) + b'"}')


@lists
def a_continue_token_of_escapes(talk: Talk) -> None:
    token = rb"\ud83d\ude00" * (7 * MIB // 12)
    talk.answer(b'{"kind":"LeaseList","metadata":{"continue":"' + token + b'"},"items":[]}')


@lists
def half_a_surrogate(talk: Talk) -> None:
    talk.answer(b'{"kind":"' + rb"\ud83d" * (60 * MIB // 6) + b'"}')


@lists
def no_utf8(talk: Talk) -> None:
    talk.answer(b'{"kind":"' + b"\xc3" * (60 * MIB) + b'"}')


@lists
def a_million_leases(talk: Talk) -> None:
    items = b",".join([b'{"metadata":{"name":"n"}}'] * 1_000_000)
    talk.answer(b'{"kind":"LeaseList","items":[' + items + b"]}")


@lists
def a_page_full_of_leases(talk: Talk) -> None:
    items = b",".join([b'{"metadata":{"name":"n"}}'] * 320_000)
    talk.answer(b'{"kind":"LeaseList","items":[' + items + b"]}")


@lists
def leases_with_escaped_keys(talk: Talk) -> None:
    items = b",".join([rb'{"metad\u0061ta":{"name":"n"}}'] * 260_000)
    talk.answer(rb'{"kind":"LeaseList","items":[' + items + b"]}")


@lists
def nodes_with_escaped_keys(talk: Talk) -> None:
    items = b",".join([rb'{"metad\u0061ta":{"n\u0061me":"n"}}'] * (60 * MIB // 36))
    kind_name = b"NodeList" if talk.asked == "nodes" else b"LeaseList"
    talk.answer(
        b'{"kind":"' + kind_name + b'","items":[' + items + b"]}"
        if talk.asked == "nodes"
        else good("leases")
    )


@lists
def twenty_thousand_leases(talk: Talk) -> None:
    if talk.asked == "nodes":
        talk.behave()
        return
    page = 0
    if "continue=" in talk.path:
        page = int(talk.path.split("continue=")[1].split("&")[0].removeprefix("p"))
    names = [f"node-{number:05d}" for number in range(page * 500, page * 500 + 500)]
    talk.answer(lease_list(names, more=f"p{page + 1}" if page < 39 else ""))


@functools.cache
def _ten_thousand(asked: str) -> bytes:
    names = [f"node-{number:05d}" for number in range(10_000)]
    return lease_list(names) if asked == "leases" else node_list(names)


@lists
def ten_thousand_leases_in_one_page(talk: Talk) -> None:
    """As many as are taken, with as many nodes: to be judged, too."""
    talk.answer(_ten_thousand(talk.asked))


@lists
def ten_thousand_nodes(talk: Talk) -> None:
    names = [f"node-{number:05d}" for number in range(10_000)]
    images = [{"names": ["registry.example/image:v1"] * 2, "sizeBytes": 10**8}] * 30
    talk.answer(node_list(names, images=images) if talk.asked == "nodes" else good("leases"))


@lists
def nodes_with_a_million_conditions(talk: Talk) -> None:
    conditions = b",".join([b'{"type":"a","status":"True"}'] * 1_000_000)
    body = (
        b'{"kind":"NodeList","items":[{"metadata":{"name":"n"},"status":{"conditions":['
        + conditions
    )
    talk.answer(body + b"]}}]}" if talk.asked == "nodes" else good("leases"))


@lists
def nodes_of_conditions_of_their_own(talk: Talk) -> None:
    """Each is true, and kept."""
    talk.answer(_nodes_of_conditions() if talk.asked == "nodes" else good("leases"))


@functools.cache
def _nodes_of_conditions() -> bytes:
    node = b'{"metadata":{"name":"n%d"},"status":{"conditions":[%s]}}'
    true = b'{"type":"%x","status":"True"}'
    items = []
    for number in range(1_000):
        conditions = b",".join(true % (number << 10 | each) for each in range(900))
        items.append(node % (number, conditions))
    return b'{"kind":"NodeList","items":[%s]}' % b",".join(items)


@lists
def nodes_of_long_labels(talk: Talk) -> None:
    label = {"worker.gardener.cloud/pool": "p" * 1_000_000}
    items: list[dict[str, object]] = [
        {"metadata": {"name": f"n{n}", "labels": label}} for n in range(60)
    ]
    body = listed("NodeList", items, {"resourceVersion": "1"})
    talk.answer(body if talk.asked == "nodes" else good("leases"))


@lists
def nodes_in_another_order(talk: Talk) -> None:
    items = b",".join([b'{"status":{"conditions":[]},"metadata":{"name":"n"}}'] * 19_000)
    body = b'{"items":[' + items + b'],"x":"' + b"x" * (50 * MIB) + b'","kind":"NodeList"}'
    talk.answer(body if talk.asked == "nodes" else good("leases"))


@lists
def items_that_look_like_others(talk: Talk) -> None:
    inner = b'},{"metadata":' * (3 * MIB)
    body = (
        b'{"kind":"NodeList","items":[{"metadata":{"name":"n","x":"'
        + inner.replace(b'"', rb"'")
        + b'"}}]}'
    )
    talk.answer(body if talk.asked == "nodes" else good("leases"))


@lists
def items_within_items(talk: Talk) -> None:
    inner = b",".join([b'{"metadata":{"name":"n"}}'] * (40 * MIB // 26))
    body = b'{"kind":"NodeList","items":[{"x":[' + inner + b'],"metadata":{"name":"n"}}]}'
    talk.answer(body if talk.asked == "nodes" else good("leases"))


@lists
def pages_without_end(talk: Talk) -> None:
    kind_name = "LeaseList" if talk.asked == "leases" else "NodeList"
    talk.answer(listed(kind_name, [], {"continue": "more"}))


@lists
def large_pages_without_end(talk: Talk) -> None:
    body = lease_list([f"n{n}" for n in range(400)], more="more")
    talk.answer(body[:-1] + b" " * (7 * MIB) + b"}")


@lists
def long_continue_tokens(talk: Talk) -> None:
    kind_name = "LeaseList" if talk.asked == "leases" else "NodeList"
    talk.answer(listed(kind_name, [], {"continue": "é" * (3 * MIB)}))


@lists
def long_names(talk: Talk) -> None:
    names = [f"{number:0253d}" for number in range(10_000)]
    talk.answer(node_list(names) if talk.asked == "nodes" else lease_list(names))


@lists
def long_times(talk: Talk) -> None:
    item: dict[str, object] = {"metadata": {"name": "n"}, "spec": {"renewTime": "2" * 14_000}}
    talk.answer(listed("LeaseList", [item] * 500, {}))


@lists
def strange_times(talk: Talk) -> None:
    arabic = str.maketrans("0123456789", "".join(chr(0x660 + digit) for digit in range(10)))
    times = [
        "2024-02-30T00:00:00Z",
        "9999-12-31T23:59:59.999999999+23:59",
        "0000-00-00T00:00:00Z",
        "2024-01-01T00:00:00Z".translate(arabic),
    ]
    items: list[dict[str, object]] = [
        {
            "metadata": {"name": f"n{n}"},
            "spec": {"renewTime": times[n % 4] + " " * n, "leaseDurationSeconds": -(2**63)},
        }
        for n in range(2000)
    ]
    talk.answer(listed("LeaseList", items, {}))


@kind
def a_long_version(talk: Talk) -> None:
    version = "v" + "1 \u2028\x1b[31m" * 100_000
    talk.answer(json.dumps({"gitVersion": version}, ensure_ascii=False).encode())


@lists
def an_event_a_moment(talk: Talk) -> None:
    talk.send(CHUNKED)
    while True:
        talk.send(crumbs(b'{"type":"BOOKMARK","object":{}}\n', 4096))
        time.sleep(0.01)
