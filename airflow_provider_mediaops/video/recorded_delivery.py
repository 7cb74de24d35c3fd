"""Keep a record around each request that posts a bulletin: the intent before it, the result after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import MediaOpsError, TaskStoppedError
from airflow_provider_mediaops.http.exchange import Blocking, Emit, NotCarriedOut, Request, observed

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Conversation, Step
    from airflow_provider_mediaops.video.at_most_once import AlreadyPosted
    from airflow_provider_mediaops.video.models import Activity


class RecordedDelivery(ABC):
    """Base class of a delivery that keeps a record for later tries."""

    #: What another task has posted since this delivery began, and was returned instead; None if this one has posted.
    posted_meanwhile: AlreadyPosted | None = None

    def around(self, posting: Conversation[Activity]) -> Conversation[Activity]:
        """
        Keep the record around each request that posts.

        :param posting: posts the bulletin; emits :class:`NotCarriedOut` after each try that has certainly posted
            nothing.
        :returns: the same conversation, which also writes the record.
        :raises TemporaryError: if the intent cannot be written; nothing is sent then.
        """
        intended = False

        def keep_record(step: Step) -> Conversation[None]:
            nonlocal intended
            if isinstance(step, Request) and not step.idempotent:
                try:
                    yield Blocking(self.intend)
                except MediaOpsError:
                    # It may be written although that failed.
                    yield Blocking(self.withdraw)
                    raise
                intended = True
            elif isinstance(step, Emit) and isinstance(step.item, NotCarriedOut):
                intended = False
                yield Blocking(self.withdraw)

        try:
            activity = yield from observed(posting, keep_record)
        except TaskStoppedError as stopped:
            # Without a reply, what was sent is uncertain.
            if intended and not stopped.sent:
                yield Blocking(self.withdraw)
            raise
        yield Blocking(partial(self.settle, activity))
        return activity

    @abstractmethod
    def intend(self) -> None:
        """
        Write that the bulletin is about to be posted.

        :raises TemporaryError: if that cannot be written.
        """

    @abstractmethod
    def withdraw(self) -> None:
        """Restore the record that was there before, because nothing was posted."""

    @abstractmethod
    def settle(self, activity: Activity) -> None:
        """
        Write that the bulletin is posted.

        :param activity: what the service returned.
        """
