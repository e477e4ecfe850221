"""Posts are bounded, ordered per kind, and stay the same through retries."""

from __future__ import annotations

import random

from ingest.senders.simulator.outbox import MAX_POST_BYTES, Outbox, Outgoing


def outgoing(n: int, kind: str = "vehicle", size: int = 10) -> Outgoing:
    return Outgoing(n, kind, b"x" * size, n)


def test_a_post_is_the_same_until_it_is_done() -> None:
    box = Outbox(100, 10)
    box.put([outgoing(0), outgoing(1)])
    first = box.next_post()
    box.put([outgoing(2)])
    assert box.next_post() is first
    assert box.room == 97
    box.done()
    post = box.next_post()
    assert post is not None
    assert [r.n for r in post.records] == [2]


def test_faces_among_vehicles_do_not_cut_posts_short() -> None:
    box = Outbox(100, 50)
    box.put([outgoing(n, "face" if n % 3 == 0 else "vehicle") for n in range(30)])
    assert box.lanes == 2
    posts = []
    while post := box.next_post():
        posts.append((post.kind, len(post.records)))
        box.done()
    assert posts == [("face", 10), ("vehicle", 20)]
    assert len(box) == 0


def test_every_record_leaves_once_in_order_of_its_kind_within_the_bounds() -> None:
    rng = random.Random(1)
    box, left, n = Outbox(10_000, 7), list[Outgoing](), 0
    for _ in range(60):
        fresh = [
            outgoing(n + i, rng.choice(("vehicle", "face")), rng.choice((10, MAX_POST_BYTES)))
            for i in range(rng.randrange(4))
        ]
        n += len(fresh)
        box.put(fresh)
        post = box.next_post()
        if post is not None:
            assert len(post.records) <= 7
            assert len(post.records) == 1 or len(post.body) <= MAX_POST_BYTES
            left += post.records
            box.done()
    while post := box.next_post():
        left += post.records
        box.done()
    assert sorted(r.n for r in left) == list(range(n))
    for kind in ("vehicle", "face"):
        numbers = [r.n for r in left if r.kind == kind]
        assert numbers == sorted(numbers)
