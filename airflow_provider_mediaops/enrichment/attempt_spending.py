"""What one attempt takes from earlier datasets, and how many requests it may send; saved with its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.batch.spending import RequestBudget, Spending
from airflow_provider_mediaops.enrichment.earlier_datasets import EarlierDataset, reuse_format
from airflow_provider_mediaops.enrichment.reuse import EarlierIndex, PinnedReuse, ReuseRule, read_index
from airflow_provider_mediaops.progress import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_provider_mediaops.books.models import Lookup
    from airflow_provider_mediaops.enrichment.attempt import Enrichment


def earlier_datasets(enrichment: Enrichment) -> list[EarlierDataset]:
    """Look at the datasets that an enrichment reuses."""
    into = enrichment.destination, enrichment.format
    return [EarlierDataset.at(path, reuse_format(path, *into)) for path in enrichment.reuse]


def changed_since(datasets: Iterable[EarlierDataset], state: Mapping[str, Any] | None) -> bool:
    """Return whether earlier datasets are others than those of which an earlier attempt has taken rows."""
    pinned = PinnedReuse.from_dict((state or {}).get("reuse"))
    return pinned is not None and dict(pinned.versions) != _versions(datasets)


class AttemptSpending:
    """
    The earlier look-ups and the budget of one attempt. Every method may block.

    :param enrichment: the description of the enrichment.
    :param datasets: the earlier datasets; none if no rows are left.
    :param state: the state that the last attempt has saved; None for a new beginning.
    :param isbns: returns the ISBNs of the list that are not looked up yet, as often as they come.
    :param log: logs a line.
    :param warn: logs a warning.
    :param now: the time in seconds since 1970.
    :raises InvalidArgumentError: if a file is no dataset of an enrichment.
    :raises OSError: if a dataset or the list cannot be read.
    """

    def __init__(
        self,
        enrichment: Enrichment,
        datasets: list[EarlierDataset],
        state: Mapping[str, Any] | None,
        isbns: Callable[[], Iterable[str]],
        *,
        log: Callable[[str], None],
        warn: Callable[[str], None],
        now: float,
    ) -> None:
        state = state or {}
        limit = enrichment.max_requests
        # An attempt without a budget has saved only how many requests it sent; the DAG may have been changed since.
        spent = max(state.get("spent", 0), state.get("requests", 0))
        self._budget = None if limit is None else RequestBudget(limit, spent)
        self._committed = spent
        self._pinned = PinnedReuse.from_dict(state.get("reuse"))
        self._index: EarlierIndex | None = None
        self._rule: ReuseRule | None = None
        new_books = 0
        if datasets:
            self._pinned = self._pinned or PinnedReuse(now, _versions(datasets))
            self._rule = ReuseRule(self._pinned.at, enrichment.reuse_seconds, enrichment.reuse_not_found_seconds)
            self._index = read_index(datasets, self._rule, log, warn)
            if self._budget:
                new_books = self._plan(self._index, self._pinned, self._budget, isbns(), log)
        #: Decides which books are asked for.
        self.spending = Spending(self._index, self._budget, new_books)

    @property
    def has_budget(self) -> bool:
        """Whether the number of requests is bounded."""
        return self._budget is not None

    @property
    def is_committed(self) -> bool:
        """Whether all requests that were sent are in the last commit."""
        return self._budget is None or self._budget.spent == self._committed

    def is_stale(self, lookup: Lookup) -> bool:
        """Return whether a look-up was reused although it is too old."""
        return self._rule is not None and self._rule.is_stale(lookup)

    def state(self) -> dict[str, Any]:
        """Return what is to be saved, as plain values."""
        pinned = {"reuse": self._pinned.to_dict()} if self._pinned else {}
        return pinned if self._budget is None else {**pinned, "spent": self._budget.spent}

    def committed(self, state: Mapping[str, Any]) -> None:
        """Take note of a state that is committed, as :meth:`state` returned it, perhaps with more in it."""
        self._committed = state.get("spent", 0)

    def close(self) -> None:
        """Remove the temporary files."""
        if self._index:
            self._index.close()

    def _plan(
        self,
        index: EarlierIndex,
        pinned: PinnedReuse,
        budget: RequestBudget,
        isbns: Iterable[str],
        log: Callable[[str], None],
    ) -> int:
        plan = index.plan(isbns, budget.left)
        if pinned.max_requests != budget.limit:
            pinned = replace(pinned, refreshed_to=plan.refreshed_to, max_requests=budget.limit)
        self._pinned, index.refreshed_to = pinned, pinned.refreshed_to
        log(
            f"In no earlier dataset: {counted(plan.new, 'ISBN')}. Looked up too long ago: {plan.stale:,}. "
            f"max_requests leaves {counted(budget.left, 'request')} for them."
        )
        return plan.new


def _versions(datasets: Iterable[EarlierDataset]) -> dict[str, str | None]:
    return {dataset.path: dataset.version for dataset in datasets}
