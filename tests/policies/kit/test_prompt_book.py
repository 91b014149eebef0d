"""The book has what was sent without a first token, as far as it is not cached, and forgets the rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poise.core.view import InFlightView
from poise.policies.kit.prompt_book import PromptBook
from poise.testing import a_cluster, a_flight, a_replica, a_request

sent = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 100), st.booleans(), st.booleans()), max_size=12)


@given(sent)
def test_a_column_is_the_sum_of_what_waits(requests: list[tuple[int, int, bool, bool]]) -> None:
    """Of each: its replica, its prompt, whether its first token was seen, whether the book has it."""
    book, flights = PromptBook(), [list[InFlightView]() for _ in range(4)]
    expected = [0] * 4
    for number, (replica, prompt, seen, known) in enumerate(requests):
        request = a_request(id=number, prompt_tokens=prompt)
        flights[replica].append(a_flight(request, replica=replica, first_token_at=5 if seen else -1))
        if known:
            book.send(number, prompt // 2)
        expected[replica] += 0 if seen else prompt // 2 if known else prompt
    cluster = a_cluster(*[a_replica(flights=tuple(each)) for each in flights], needs=["flights"])
    assert book.queued(cluster) == expected
    assert book.queued(cluster) == expected  # asking changes nothing
    assert len(book._tokens) == sum(not seen for *_, seen, _ in requests)


def test_a_moved_prompt_counts_where_it_is() -> None:
    book, request = PromptBook(), a_request(prompt_tokens=80)
    book.send(request.id, 50)
    here = a_replica(flights=(a_flight(request),))
    assert book.queued(a_cluster(here, a_replica())) == [50, 0]
    assert book.queued(a_cluster(a_replica(), here)) == [0, 50]
    book.send(request.id, 70)  # less of it is cached there
    assert book.queued(a_cluster(a_replica(), here)) == [0, 70]
