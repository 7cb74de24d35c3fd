"""
Attempts at one dataset that stand still before every request or call to the system, in any order that a test likes.

Each attempt is a greenlet that runs the real code. One that is never stepped again has died, or is a zombie. After each
step, the world is judged: see the methods that begin with ``_check``.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE
from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage import dataset, files, local, log
from airflow_provider_mediaops.storage.dataset import Dataset, Staging, backend_of
from airflow_provider_mediaops.storage.formats import FlatView
from airflow_provider_mediaops.storage.log import History, claims_in
from airflow_provider_mediaops.storage.object_store import StoreBackend
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.storage.paths import path_of
from tests.unit.storage.dying import DeathError
from tests.unit.storage.fake_store import FakeStore, store_of

if TYPE_CHECKING:
    import pytest

    from airflow_provider_mediaops.storage.files import Version
    from airflow_provider_mediaops.storage.log import Backend
    from tests.unit.storage.fake_store import Kind

_MEMORY = Path("/dev/shm")  # noqa: S108 the folder of the system for files in memory
_SCRATCH = str(_MEMORY) if _MEMORY.is_dir() else None
_MAIN = getcurrent()
_VIEW = FlatView(columns={"by": str}, flatten=lambda record: record)


class Broken(AssertionError):  # noqa: N818
    """A promise is broken."""


def _attempt_now() -> Attempt | None:
    return getattr(getcurrent(), "attempt", None)


def pause(label: str) -> Attempt | None:
    """Stand still before an operation; return the attempt that is about to do it, if one is."""
    attempt = _attempt_now()
    if attempt is None:
        return None
    if not attempt.dead:
        attempt.label = label
        _MAIN.switch()
    if attempt.dead:
        raise DeathError
    return attempt


class _PacedOs:
    """The module ``os``, as far as the storage uses it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT:
            pause(f"create {Path(path).name}")
        return os.open(path, flags, *mode)

    def pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        attempt = pause("write")
        if attempt and attempt.torn:
            os.pwrite(descriptor, bytes(data)[: max(1, len(data) // 2)], offset)
            attempt.dead = True
            raise DeathError
        return os.pwrite(descriptor, data, offset)

    def fsync(self, descriptor: int) -> None:
        """Sync nothing: no power fails here."""

    def listdir(self, path: Any) -> list[str]:
        pause(f"list {Path(path).name}")
        return os.listdir(path)  # noqa: PTH208 as the storage calls it


class _PacedLocks:
    LOCK_EX, LOCK_NB = fcntl.LOCK_EX, fcntl.LOCK_NB

    def flock(self, descriptor: int, how: int) -> None:
        attempt = pause("lock")
        while True:
            try:
                fcntl.flock(descriptor, how)
            except BlockingIOError:
                if attempt is None:
                    raise
                attempt.blocked = True
                pause("wait for the lock")
                attempt.blocked = False
            else:
                return


class _RememberingStaging(Staging):
    """A staging that its attempt can show."""

    def __init__(self, *arguments: Any) -> None:
        if attempt := _attempt_now():
            attempt.staging = self
        super().__init__(*arguments)

    @property
    def noted(self) -> Version | None:
        return getattr(self, "_noted", None)

    @property
    def noted_changes(self) -> Version | None:
        return getattr(self, "_noted_changes", None)


def pace(patch: pytest.MonkeyPatch) -> None:
    """Let attempts stand still before each operation, and keep their temporary files in memory, if the machine can."""
    paced = _PacedOs()
    patch.setattr(tempfile, "tempdir", _SCRATCH)
    for module in (local, files):
        patch.setattr(module, "os", paced)
    patch.setattr(local, "fcntl", _PacedLocks())
    patch.setattr(local, "time", SimpleNamespace(monotonic=lambda: 0.0))
    patch.setattr(log, "secrets", SimpleNamespace(token_hex=lambda _: _token()))
    patch.setattr(dataset, "Staging", _RememberingStaging)
    patch.setattr(StoreBackend, "hold_seconds", 0.0)
    for name in ("replace", "unlink"):
        patch.setattr(Path, name, _paced(name, getattr(Path, name)))


def _paced(name: str, call: Any) -> Any:
    def paced(path: Path, *arguments: Any, **options: Any) -> Any:
        pause(f"{name} {(arguments[0] if arguments else path).name}")
        return call(path, *arguments, **options)

    return paced


_spare_tokens = iter(range(10**8))


def _token() -> str:
    attempt = _attempt_now()
    if attempt is None:
        return f"{next(_spare_tokens):08}"
    attempt.tokens += 1
    return attempt.token if attempt.tokens == 1 else f"{next(_spare_tokens):08}"


@dataclass(frozen=True)
class Plan:
    """
    What an attempt is asked for.

    :param pages: the number of records of each page.
    :param fresh: whether it was cleared after a success, so that it must not use what was there before.
    :param fingerprint: a digest of the content; empty for that of who has written which page.
    :param by: what the records say instead of who has asked for them, so that two runs make the same file.
    """

    pages: tuple[int, ...] = (1, 1)
    fresh: bool = False
    fingerprint: str = ""
    by: str = ""


TWO_PAGES = Plan()


@dataclass(eq=False)
class Attempt:
    """One attempt."""

    world: World
    name: str
    owner: Owner
    token: str
    plan: Plan
    dead: bool = False
    torn: bool = False
    blocked: bool = False
    over: bool = False
    started: bool = False
    label: str = "start"
    #: The end of the path of the object whose write has its reply lost.
    loses: str = ""
    result: Any = None
    error: Exception | None = None
    staging: Any = None
    asked: list[int] = field(default_factory=list)
    steps: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        self._greenlet = greenlet(self._run)
        self._greenlet.attempt = self

    def step(self, *, torn: bool = False) -> bool:
        """Do one operation, up to the next; return whether there is one."""
        if self.over:
            return False
        self.torn, self.started = torn, True
        self.steps += 1
        self._greenlet.switch()
        self.torn = False
        self.world.observe(self)
        return not self.over

    def run(self, steps: int = 10_000) -> Attempt:
        """Do some operations; stop at a lock that another holds."""
        while steps and self.step() and not self.blocked:
            steps -= 1
        return self

    def until(self, word: str) -> bool:
        """Run up to an operation with this word in its name; return whether it comes."""
        while not (self.over or (self.started and word in self.label)):
            self.step()
        return not self.over

    def kill(self) -> None:
        """End it where it stands."""
        if not self.over:
            self.dead = True
            if self.started:
                self._greenlet.switch()
            self.over = True

    def _run(self) -> None:
        try:
            self.result = self._export()
        except DeathError:
            pass
        except (MediaOpsError, OSError) as error:
            self.error = error
        self.over, self.label = True, "over"

    def _export(self) -> dict[str, Any]:
        made, plan = self.world.dataset(self.owner), self.plan
        found = made.published(self.owner)
        if found is not None:
            return found
        with made.staging(self.owner) as staging:
            for page in range(staging.state or 0, len(plan.pages)):
                pause(f"ask for page {page}")
                self.asked.append(page)
                rows = [{"page": page, "row": row, "by": plan.by or self.name} for row in range(plan.pages[page])]
                staging.commit(rows, page + 1)
            by = writers_of(staging.records())
            staging.summary = {"by": by}
            staging.digest = plan.fingerprint or f"of {by}"
            if made.changes:
                staging.changes = lambda file: _write_changes(file, staging)
        summary: dict[str, Any] = staging.summary
        return summary


def writers_of(records: Iterable[Any]) -> list[str]:
    """Return who has asked for each page that has a record."""
    return [by for _, by in sorted({record["page"]: record["by"] for record in records}.items())]


def identity_of(content: bytes) -> str:
    """Return a short digest."""
    return hashlib.sha256(content).hexdigest()[:12]


def _write_changes(file: Path, staging: Any) -> None:
    before = None
    if staging.replaced:
        before = identity_of("".join(f"{record}\n" for record in staging.replaced_records()).encode())
    after = identity_of(b"".join(line + b"\n" for line in staging.lines()))
    file.write_bytes(json.dumps({"from": before, "to": after}).encode())


class World:
    """
    One destination, and what has happened to it.

    :param kind: ``disk``, or which conditions a store checks.
    :param changes: where changes go: a path for each owner (``own``), one for all (``shared``), or nowhere (None).
    """

    def __init__(self, kind: str, changes: str | None = "own") -> None:
        self.kind, self.changes = kind, changes
        self.is_exact = kind in ("disk", "conditions")
        #: How often a store without conditions has let one replace the file of another.
        self.races = 0
        self.attempts: list[Attempt] = []
        self.past: list[Attempt] = []
        self.history: list[tuple[bytes, str, Any]] = []
        self.changes_written: dict[str, Any] = {}
        self._seen: Any = None
        self._changes_seen: dict[str, Any] = {}
        self.store = store_of("none")
        #: The time of writes. Files have that of the system.
        self.now = time.time()
        if kind == "disk":
            self._folder = tempfile.TemporaryDirectory(dir=_SCRATCH)
            self.root = self._folder.name
        else:
            self.root = "memory://schedules@bucket"
            self._attach(store_of(cast("Kind", kind)))
        # There is a file of an earlier run.
        self.lone(OLD, "old", Plan(pages=(1,), fingerprint="same"))
        self.attempts.clear()

    def _attach(self, store: FakeStore) -> None:
        self.store = store
        store.on_request, store.clock = self._request, lambda: self.now
        _STORE_CACHE.pop("memory-schedules", None)
        attach("memory", "schedules", fs=store)

    @staticmethod
    def _request(name: str, path: str) -> bool:
        attempt = pause(f"{name} {path.rpartition('/')[2]}")
        is_lost = bool(attempt and attempt.loses and path.endswith(attempt.loses) and name == "put_object")
        if attempt and is_lost:
            attempt.loses = ""
        return is_lost

    def close(self) -> None:
        for attempt in self.attempts:
            attempt.kill()
        if self.kind == "disk":
            self._folder.cleanup()
        else:
            _STORE_CACHE.pop("memory-schedules", None)

    @property
    def path(self) -> str:
        return f"{self.root}/data.jsonl"

    def dataset(self, owner: Owner) -> Dataset:
        return Dataset(self.path, view=_VIEW, changes=self.changes_of(owner), clock=lambda: self.now)

    def changes_of(self, owner: Owner) -> str | None:
        if self.changes == "shared":
            return f"{self.root}/changes.json"
        return f"{self.root}/changes-{owner.task.split('/')[1]}.json" if self.changes == "own" else None

    def attempt(self, name: str, owner: Owner, token: str, plan: Plan = TWO_PAGES) -> Attempt:
        made = Attempt(self, name, owner, token, plan)
        self.attempts.append(made)
        return made

    def lone(self, owner: Owner, name: str, plan: Plan = TWO_PAGES, tries: int = 1) -> Attempt:
        """Run attempts of an owner with nobody else; return the last."""
        for number in range(tries):
            each = f"{name}{number}" if tries > 1 else name
            made = self.attempt(each, owner, f"f{len(self.attempts):07x}", plan).run()
            if not made.over:
                raise Broken(f"a lone attempt is stuck at {made.label}")
            if made.result:
                break
        return made

    def copy(self) -> World:
        """Return a world in the same state, without the attempts."""
        made = object.__new__(World)
        made.__dict__.update(self.__dict__)
        made.attempts, made.past = [], [*self.attempts, *self.past]
        made.history = list(self.history)
        made.changes_written, made._changes_seen = dict(self.changes_written), dict(self._changes_seen)
        if self.kind != "disk":
            store = store_of(cast("Kind", self.kind))
            store.store = dict(self.store.store)
            made._attach(store)
            return made
        # By links, so that the versions are the same; nothing is changed in place but by its own attempt.
        made._folder = tempfile.TemporaryDirectory(dir=_SCRATCH)
        made.root = made._folder.name
        shutil.copytree(self.root, made.root, dirs_exist_ok=True, copy_function=_link)
        for name in ("changes_written", "_changes_seen"):
            paths = {path.replace(self.root, made.root): each for path, each in getattr(self, name).items()}
            setattr(made, name, paths)
        return made

    @contextmanager
    def copied(self) -> Iterator[World]:
        """Have a copy until the block ends."""
        made = self.copy()
        try:
            yield made
        finally:
            made.close()
            if self.kind != "disk":
                self._attach(self.store)

    # What is there.

    def read(self, path: str) -> bytes | None:
        if self.kind != "disk":
            file = self.store.store.get(path.replace("memory://schedules@", "/"))
            return file.getvalue() if file else None
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None

    def _stamp(self, path: str) -> Any:
        if self.kind != "disk":
            return self.store.store.get(path.replace("memory://schedules@", "/"))
        try:
            found = os.stat(path)  # noqa: PTH116 once or twice after each step
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    @contextmanager
    def backend(self, path: str = "") -> Iterator[Backend]:
        made = backend_of(path_of(path or self.path))
        try:
            yield made
        finally:
            made.close()

    def version(self, path: str = "") -> Version | None:
        with self.backend(path) as backend:
            return backend.version()

    def manifest(self) -> dict[str, Any] | None:
        """Return the manifest, if it describes the file at the destination."""
        text = self.read(f"{self.root}/.data.jsonl.staging/manifest.json")
        found = parse_json(text) if text else None
        return found if found and found["file"] == list(self.version() or ()) else None

    def names(self, owner: Owner) -> list[str]:
        """Return the names in the folder of an owner."""
        with self.backend() as backend:
            return backend.names(owner.folder)

    def by(self, name: str) -> Attempt:
        return next(each for each in self.everybody if each.name == name)

    @property
    def everybody(self) -> list[Attempt]:
        return [*self.attempts, *self.past]

    # What has to hold.

    def observe(self, attempt: Attempt) -> None:
        """Judge what an attempt has just done."""
        if _attempt_now():
            return
        stamp = self._stamp(self.path)
        if stamp != self._seen:
            self._seen = stamp
            content = self.read(self.path)
            if content is None:
                raise Broken("the file is gone")
            before = self.history[-1] if self.history else None
            self.history.append((content, attempt.name, self.version()))
            if attempt.name != "old":
                self._check_file(attempt, content)
                self._check_replaced(attempt, before)
        path = self.changes_of(attempt.owner)
        if path and self._stamp(path) != self._changes_seen.get(path):
            self._changes_seen[path] = self._stamp(path)
            if self.changes_written.get(path) != attempt.staging.noted_changes:
                if self.is_exact:
                    raise Broken("changes of another were overwritten")
                self.races += 1
            self.changes_written[path] = self.version(path)
        if attempt.over and attempt.result:
            self._check_success(attempt)

    def _check_file(self, attempt: Attempt, content: bytes) -> None:
        records = [json.loads(line) for line in content.splitlines()]
        wanted = [(page, row) for page, rows in enumerate(attempt.plan.pages) for row in range(rows)]
        if [(record["page"], record["row"]) for record in records] != wanted:
            raise Broken("not every row once, in order")
        if attempt.plan.by:
            return
        for name in {record["by"] for record in records}:
            writer = self.by(name)
            if writer.owner.folder != attempt.owner.folder:
                raise Broken("rows of another owner")
            if attempt.plan.fresh and writer.owner.turn != attempt.owner.turn:
                raise Broken("a task cleared after its success publishes a row from before")

    def _check_replaced(self, attempt: Attempt, before: tuple[bytes, str, Any] | None) -> None:
        if (before[2] if before else None) == attempt.staging.noted:
            return
        if not self.is_exact:
            self.races += 1
        elif not before or before[1] == "old" or self.by(before[1]).owner.folder != attempt.owner.folder:
            raise Broken(f"{attempt.name} replaces a file that is younger than its claim")

    def _check_success(self, attempt: Attempt) -> None:
        for other in self.attempts:
            if other.result and other.owner == attempt.owner and other.result["by"] != attempt.result["by"]:
                raise Broken("two attempts of one owner report success with different files")
        # An empty page has no record, hence no writer.
        if len(attempt.result["by"]) != sum(1 for rows in attempt.plan.pages if rows):
            raise Broken("the reported file is not whole")
        found = self.manifest()
        if found and self.history[-1][1] != "old":
            content, name, _ = self.history[-1]
            writer = self.by(name)
            digest = writer.plan.fingerprint or f"of {writers_of(map(json.loads, content.splitlines()))}"
            if found["fingerprint"] != self.dataset(writer.owner).fingerprint(digest, writer.owner):
                raise Broken("the manifest gives a file the fingerprint of another")

    def check_changes(self, owner: Owner | None = None) -> None:
        """Judge the file of changes of the writer of the present file: it describes the step to that file."""
        if not self.changes or not self.history or self.history[-1][1] == "old" or self.races:
            return
        content, name, _ = self.history[-1]
        writer = self.by(name).owner
        if owner is None and not any(each.result for each in self.everybody if each.owner == writer):
            return  # nobody has finished this step yet
        if owner and owner.folder != writer.folder:
            return
        text = self.read(str(self.changes_of(writer)))
        if text is None:
            raise Broken("no changes for the present file")
        found = json.loads(text)
        if found["to"] != identity_of(content):
            raise Broken("changes lead to another file than the present one")
        before = identity_of(self.history[-2][0]) if len(self.history) > 1 else None
        if found["from"] == found["to"] and before != found["to"]:
            raise Broken("changes against its own new file")
        if found["from"] not in (None, before):
            raise Broken("changes against another file than the replaced one")

    def step_of(self, owner: Owner) -> dict[str, Any]:
        """Return what the changes of an owner say: from which file to which."""
        found: dict[str, Any] = json.loads(self.read(str(self.changes_of(owner))) or b"{}")
        return found

    def check_compared(self) -> None:
        """Judge the changes of a lone owner: they are always compared with the file before."""
        if any(each.result for each in self.attempts):
            found = self.step_of(A)
            if found.get("from") != identity_of(self.history[0][0]):
                raise Broken(f"changes are compared with {found}")

    def _state(self) -> int:
        """Return what the next attempts can know, and who has succeeded."""
        if self.kind == "disk":
            root = Path(self.root)
            found = [(str(each.relative_to(root)), each.read_bytes()) for each in root.rglob("*") if each.is_file()]
        else:
            found = [(name, file.getvalue()) for name, file in self.store.store.items()]
        return hash((frozenset(found), tuple((each.name, each.started, bool(each.result)) for each in self.attempts)))

    def check_alone(self, seen: set[int] | None = None) -> None:
        """From this state, run a retry, a cleared task and the next run, each alone; judge them."""
        if seen is not None:
            state = self._state()
            if state in seen:
                return
            seen.add(state)
        begun = [each for each in self.everybody if each.started and each.name != "old"]
        for folder in {each.owner.folder for each in begun}:
            self._check_owner([each for each in begun if each.owner.folder == folder])
        with self.copied() as world:
            before = len(world.history)
            if not world.lone(NEXT, "next", tries=3).result:
                raise Broken("the next run does not succeed")
            if len(world.history) > before:
                world.check_changes()

    def _check_owner(self, mine: list[Attempt]) -> None:
        owner = max((each.owner for each in mine), key=lambda each: each.clears)
        now = [each for each in mine if each.owner == owner]
        plan = replace(now[0].plan, fresh=any(each.plan.fresh for each in now))
        cleared = replace(owner, clears=owner.clears + 1)
        if any(each.result for each in now):
            with self.copied() as world:
                if not world.lone(cleared, "cleared", replace(plan, fresh=True), tries=3).result:
                    raise Broken("three lone retries of a cleared task do not succeed")
                if sum(len(each.asked) for each in world.attempts) < len(plan.pages):
                    raise Broken("a task cleared after its success does not do the work again")
            return
        pages_left, is_published, has_last = self._left(owner, plan)
        with self.copied() as world:
            made = world.lone(owner, "retry", plan, tries=3)
            if not made.result:
                raise Broken(f"three lone retries do not succeed: {made.error}")
            asked = sum(len(each.asked) for each in world.attempts)
            if asked > pages_left:
                raise Broken(f"the retry asks for {asked} pages, and {pages_left} were not in the log")
            if is_published and len(world.history) != len(self.history):
                raise Broken("a retry does not return its published result")
            world.check_changes(owner)
            again = world.lone(owner, "once more", plan)
            if again.asked or again.result != made.result:
                raise Broken("a retry after success does not return its result")
        if not plan.fresh:
            self._check_cleared(owner, plan, pages_left, has_last=has_last)

    def _check_cleared(self, owner: Owner, plan: Plan, pages_left: int, *, has_last: bool) -> None:
        """From this state, run a task that was cleared after a failure."""
        cleared = replace(owner, clears=owner.clears + 1)
        with self.copied() as world:
            if not world.lone(cleared, "cleared", plan, tries=3).result:
                raise Broken("three lone retries of a cleared task do not succeed")
            if not has_last and sum(len(each.asked) for each in world.attempts) > pages_left:
                raise Broken("a task cleared after a failure does not resume")
            world.check_changes(owner)

    def _left(self, owner: Owner, plan: Plan) -> tuple[int, bool, bool]:
        """Return how many pages are not in the log, whether the task has published, and whether a log is over."""
        pages = len(plan.pages)
        with self.backend() as backend:
            history = History(backend, owner.folder, backend.names(owner.folder))
            if history.summary(owner.turn) is not None:
                return 0, True, True
            top = max(claims_in(self.names(owner)), default=None)
            frames = [frame for log in history.newer if log.claim == top for frame in log.frames()]
            states = [frame.value() for frame in frames if frame.header.kind == "rows"]
        return pages - max(states, default=0), False, history.last is not None


def _link(source: str, target: str) -> None:
    if not source.endswith("/lock"):
        os.link(source, target)


def owner_of(run: str, clears: int = 0, map_index: int = -1) -> Owner:
    """Return the task of a run."""
    return Owner(f"dag/{run}/task/{map_index}", f"p{max(map_index, 0)}", clears, "2026-01-01")


OLD, NEXT = owner_of("old"), owner_of("next")
A, B = owner_of("a"), owner_of("b")
CLEARED = owner_of("a", clears=1)


def to_end(*attempts: Attempt) -> None:
    """Let attempts run on in turn, until all have ended."""
    for _ in range(20):
        for each in attempts:
            each.run()
        if all(each.over for each in attempts):
            return
    raise Broken("attempts wait for each other")


def length(kind: str, plan: Plan = TWO_PAGES, changes: str | None = "own") -> int:
    """Return the number of operations of a lone attempt."""
    world = World(kind, changes)
    steps = world.lone(A, "X", plan).steps
    world.close()
    return steps
