"""The model of a bulletin."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from airflow_provider_mediaops.exceptions import UncertainDeliveryError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Failure, Response, TransportError
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from airflow_provider_mediaops.video.errors import VIDEO_RULES
from tests.models.attempts import Attempt, current_attempt, store_turn, take_turn
from tests.models.machine import TaskMachine
from tests.models.places import DiskPlace, StorePlace
from tests.unit.task_state import KeptState
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request
    from airflow_provider_mediaops.video.arguments import OnUncertain
    from tests.models.places import ModelPlace

_TASKS = ("one", "other")
#: The steps of an attempt before something else happens.
_STEPS = st.integers(0, 25)
#: Refusals after which it is certain that nothing was posted.
_CERTAIN: dict[str, tuple[int, str]] = {
    "bad": (400, "bulletinTextRequired"),
    "limit": (429, "rateLimitExceeded"),
    "quota": (403, "quotaExceeded"),
}
#: Ends of a request after which it is not: it was posted, or was not.
_UNCERTAIN = ("down", "down, posted", "lost", "lost, posted", "no activity, posted")


class PacedState(KeptState):
    """A task's state store whose calls are steps."""

    def get(self, key: str) -> Any:
        store_turn()
        return super().get(key)

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        is_lost = store_turn()
        super().set(key, value, retention=retention)
        if is_lost:
            raise TimeoutError("the reply was lost")

    def delete(self, key: str) -> None:
        is_lost = store_turn()
        super().delete(key)
        if is_lost:
            raise TimeoutError("the reply was lost")


@dataclass
class BulletinTask:
    """
    A task, as Airflow knows it.

    :param max_tries: the number of the last try that it may have.
    :param has_succeeded: whether Airflow knows that its latest attempt has succeeded.
    :param is_to_post: whether it was cleared to post again, and has not since.
    """

    name: str
    tries: int = 0
    max_tries: int = 2
    latest: Attempt | None = None
    has_succeeded: bool = False
    is_to_post: bool = False
    state: PacedState = field(default_factory=PacedState)


@dataclass
class Bulletin:
    """
    What is to be posted once.

    :param posts: the ids that the service has given, with the attempts that posted.
    :param returned: the id that an attempt has returned.
    :param clears: how often a task was cleared that posts again then.
    :param is_in_doubt: whether a record may be there that does not say whether it is posted, or two attempts have run
        at a time.
    """

    posts: list[tuple[str, Attempt]] = field(default_factory=list)
    returned: str | None = None
    clears: int = 0
    is_in_doubt: bool = False


class BulletinMachine(TaskMachine):
    """
    Two tasks post a bulletin: the same one, if they have a journal and ``once_per``.

    - It is posted once, or never. The exceptions: a task that was cleared and has ``post_again_on_clear`` posts once
      more; with ``on_uncertain="retry"`` it is posted again if an attempt has left the matter in doubt.
    - An attempt that succeeds returns an id that the service has given: its own if it has posted, else the one that
      was returned before.
    - Only a matter in doubt is called uncertain.
    - An attempt that nobody disturbs succeeds.

    The tries of a task that keeps its record in Airflow's state store run one at a time, by Airflow's own word.
    """

    @initialize(
        place=st.sampled_from([None, DiskPlace, StorePlace]),
        is_shared=st.booleans(),
        on_uncertain=st.sampled_from(["fail", "fail", "retry"]),
        posts_again=st.booleans(),
        name=st.sampled_from(_TASKS),
        steps=_STEPS,
    )
    def begin(
        self,
        *,
        place: type[ModelPlace] | None,
        is_shared: bool,
        on_uncertain: OnUncertain,
        posts_again: bool,
        name: str,
        steps: int,
    ) -> None:
        self.place = place(self.clock) if place else None
        self.on_uncertain, self.posts_again = on_uncertain, posts_again
        self.is_shared = bool(place and is_shared)
        self.tasks = {name: BulletinTask(name) for name in _TASKS}
        shared = Bulletin()
        self.bulletins = {name: shared if self.is_shared else Bulletin() for name in _TASKS}
        self.faults: list[str] = []
        self.client = Client(("https://video.example",), VIDEO_RULES, retry=RetryPolicy(max_attempts=2))
        self.has_to_post: set[Attempt] = set()
        self.count = 0
        self.start(name, steps)

    @precondition(lambda self: self.has_room)
    @rule(name=st.sampled_from(_TASKS), steps=_STEPS)
    def start(self, name: str, steps: int) -> None:
        if not self.tasks[name].has_succeeded:
            self.let(self._start(self.tasks[name]), steps)

    def _start(self, task: BulletinTask) -> Attempt:
        bulletin = self.bulletins[task.name]
        others = [each for each in self.running if self.bulletins[each.task] is bulletin]
        if self.place is None:
            for each in others:
                self.kill_now(each)
        elif others:
            bulletin.is_in_doubt = True
        task.tries += 1
        number, max_tries = task.tries, task.max_tries
        attempt = Attempt(self.clock, task.name, self.client, self._send, lambda: self._post(task, number, max_tries))
        task.latest = attempt
        self.launch(attempt)
        if task.is_to_post and not self.is_shared:
            self.has_to_post.add(attempt)
        if self.faults or bulletin.is_in_doubt:
            self.disturbed.add(attempt)
        return attempt

    def _post(self, task: BulletinTask, number: int, max_tries: int) -> dict[str, Any]:
        operator = PostBulletinOperator(
            task_id="post",
            text="Hi",
            on_uncertain=self.on_uncertain,
            post_again_on_clear=self.posts_again,
            journal=f"{self.place.folder}/journal" if self.place else None,
            once_per="2026-11-23" if self.is_shared else None,
        )
        ids = {"dag_id": task.name, "run_id": "run", "task_id": "post", "map_index": -1}
        instance = SimpleNamespace(**ids, try_number=number, max_tries=max_tries)
        context: Any = {"ti": instance, "task_state_store": task.state}
        return operator.execute(context)

    @rule(wrong=st.sampled_from([*_CERTAIN, *_UNCERTAIN]), times=st.integers(1, 2))
    def break_the_service(self, wrong: str, times: int) -> None:
        self.faults = [wrong] * times
        self.disturbed |= set(self.running)

    @rule(name=st.sampled_from(_TASKS))
    def clear(self, name: str) -> None:
        task = self.tasks[name]
        task.max_tries = max(task.max_tries + 1, task.tries + 2)
        task.has_succeeded = False
        if self.posts_again:
            self.bulletins[name].clears += 1
            task.is_to_post = bool(self.bulletins[name].posts)

    def _send(self, request: Request) -> Response:
        assert request.method == "POST"
        step = take_turn()
        attempt = current_attempt()
        bulletin = self.bulletins[attempt.task]
        wrong = self.faults.pop(0) if self.faults else ""
        if step == "refused":
            raise TransportError(Failure.NOT_SENT, "no connection")
        if wrong in _CERTAIN:
            status, reason = _CERTAIN[wrong]
            return _reply(error(status, reason), status)
        bulletin.is_in_doubt |= bool(wrong or step)
        if not wrong or "posted" in wrong:
            self._count(bulletin, attempt)
        if wrong.startswith("down"):
            return _reply(error(503, "backendError"), 503)
        if step or wrong.startswith("lost"):
            raise TransportError(Failure.BROKEN, "the connection broke")
        return _reply({} if wrong else {"id": bulletin.posts[-1][0], "kind": "svc#activity"})

    def _count(self, bulletin: Bulletin, attempt: Attempt) -> None:
        self.count += 1
        bulletin.posts.append((f"act-{self.count}", attempt))
        self.tasks[attempt.task].is_to_post = False
        may_repeat = self.on_uncertain == "retry" and bulletin.is_in_doubt
        if len(bulletin.posts) > 1 + bulletin.clears and not may_repeat:
            self.wrong.append(f"posted {len(bulletin.posts)} times, and cleared {bulletin.clears} times")

    def on_fault(self, attempt: Attempt) -> None:
        self.bulletins[attempt.task].is_in_doubt = True

    def on_end(self, attempt: Attempt) -> None:
        task, bulletin = self.tasks[attempt.task], self.bulletins[attempt.task]
        if attempt.is_dead:
            bulletin.is_in_doubt = True
        if isinstance(attempt.outcome, UncertainDeliveryError):
            assert bulletin.is_in_doubt, f"uncertain without a reason: {attempt.outcome}"
        if not attempt.succeeded:
            return
        given, own = [given for given, _ in bulletin.posts], [given for given, by in bulletin.posts if by is attempt]
        assert attempt.result["id"] in given, "the service has not given this id"
        assert not own or attempt.result["id"] == own[-1], "not its own id"
        if attempt not in self.disturbed:
            assert own or attempt not in self.has_to_post, "not posted again"
            if bulletin.returned and not own:
                assert attempt.result["id"] == bulletin.returned, "another id than before"
        bulletin.returned = attempt.result["id"]
        task.has_succeeded |= task.latest is attempt

    def check_last(self) -> None:
        self.faults = []
        for task in self.tasks.values():
            self.finish_now(self._start(task))

    def close(self) -> None:
        if self.place:
            self.place.close()


def _reply(body: object, status: int = 200) -> Response:
    return Response(status, {"content-type": "application/json"}, json.dumps(body).encode())
