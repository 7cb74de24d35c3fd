"""Whatever a service does, each row of a list comes out once and in order, and none is ``not_found`` unvouched for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.books.batch.scripted import ISBNS, OUTCOMES, Batch


@given(
    rows=st.lists(st.sampled_from([*ISBNS, "x", f"ISBN {ISBNS[0]}"]), max_size=30),
    outcomes=st.lists(st.sampled_from(OUTCOMES), max_size=80),
    bulk_size=st.sampled_from([1, 4]),
    window=st.integers(1, 12),
)
def test_each_row_comes_out_once_and_in_order(
    rows: list[str], outcomes: list[str], *, bulk_size: int, window: int
) -> None:
    batch = Batch(rows, bulk_size=bulk_size, window=window, ahead=5)
    batch.run(outcomes)

    statuses = [status for _, status in batch.taken]
    assert "not_found" not in statuses or batch.any_found
    assert all((status == "invalid") == (text == "x") for text, status in batch.taken)
    if batch.held.wrong:
        # The canary is not there: what is undecided stays so for the next attempt.
        assert [text for text, _ in batch.taken] == rows[: len(batch.taken)]
        return
    assert batch.scheduler.is_over
    assert [text for text, _ in batch.taken] == rows
    assert batch.scheduler.rows.out_of_order() == []
