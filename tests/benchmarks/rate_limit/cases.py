"""The cases of the benchmark, and their measurement."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).parents[3]
MODULES = "tests.benchmarks.rate_limit"
# The requests of a case, and those of each of its processes, at the least.
REQUESTS = {"plain": 30, "jitter": 60, "late": 100}
TURNS = {"plain": 3.2, "jitter": 8.0, "late": 12.0}
# Together, cases of a medium rate may take longer: of more requests, chance makes a smaller part.
TOGETHER_SECONDS = {"plain": 10.0, "jitter": 30.0, "late": 60.0}
LEAST_USED, LEAST_SHARE, MOST_SHARE = 0.97, 0.6, 1.4
# Cases of this rate and above keep the machine busy, so each of them is measured by itself.
BY_ITSELF_RATE = 50
# The processes that ask at the same time. They sleep almost always.
TOGETHER_PROCESSES = 64


@dataclass(frozen=True)
class Figures:
    """
    The figures of a case, from the service's log.

    :param requests: how many came.
    :param used: the share of the rate that was used.
    :param refused: how many were refused.
    :param least: the least share of a process, where 1 is fair.
    :param most: the largest share of a process.
    """

    requests: int
    used: float
    refused: int
    least: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether they are what the limiter promises."""
        fair = self.least >= LEAST_SHARE and self.most <= MOST_SHARE
        return not self.refused and self.used >= LEAST_USED and fair


def figures_of(log: Sequence[tuple[float, str, bool]], rate: int, processes: int) -> Figures:
    """Return the figures of a case from the service's log."""
    times = [moment for moment, _, _ in log]
    by_process = Counter(process for _, process, _ in log)
    fair = len(log) / processes
    shares = [by_process[str(number)] / fair for number in range(processes)]
    used = (len(log) - 1) / (times[-1] - times[0]) / rate
    return Figures(len(log), used, sum(not good for _, _, good in log), min(shares), max(shares))


@dataclass(frozen=True)
class Case:
    """
    A case to measure.

    :param package: its name for the package that is measured.
    :param folder: where that package is.
    :param weather: one of ``weather.WEATHERS``.
    :param store: the kind of store.
    :param address: the store's address, for this case alone.
    :param processes: how many ask at the same time.
    :param rate: the requests a second that the service admits.
    :param least_seconds: how long it is measured at the least; longer if there are too few requests then.
    """

    package: str
    folder: Path
    weather: str
    store: str
    address: str
    processes: int
    rate: int
    least_seconds: float

    @property
    def key(self) -> str:
        """The key of its own."""
        return f"{self.rate}-{self.weather}-{self.package}-{self.store}-{self.processes}"

    @property
    def callers(self) -> int:
        """How many callers each process needs, so that replies that take long do not keep them from using the rate."""
        return 1 if self.weather == "plain" else math.ceil((1 + self.rate / 4) / self.processes)

    @property
    def seconds(self) -> float:
        """How long it is measured."""
        requests_needed = max(REQUESTS[self.weather], TURNS[self.weather] * self.processes)
        # A second more for the cooldown before the first slot.
        return 1.0 + max(self.least_seconds, requests_needed / self.rate)

    def start(self, stack: ExitStack, base: str, *, on_loop: bool) -> list[subprocess.Popen[str]]:
        """Start the processes that send; each waits for a line on its standard input."""
        command = ["asking", base, self.address, self.key]
        how = ["--on-loop"] if on_loop else []
        return [
            stack.enter_context(started([*command, str(number), str(self.callers), *how], self.folder))
            for number in range(self.processes)
        ]


def measure(cases: Iterable[Case], base: str, *, on_loop: bool) -> Iterator[tuple[Case, Figures]]:
    """
    Measure cases at the same time, each with a key and a store of its own, and read the service's log.

    :param cases: the cases.
    :param base: the service's address.
    :param on_loop: whether to ask from event loops.
    :returns: each case with its figures, when its time has come; then its processes have ended.
    """
    in_order = sorted(cases, key=lambda case: case.seconds)
    with ExitStack() as all_stacks:
        stacks = [all_stacks.enter_context(ExitStack()) for _ in in_order]
        asking = [
            process
            for case, stack in zip(in_order, stacks, strict=True)
            for process in case.start(stack, base, on_loop=on_loop)
        ]
        for process in asking:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in asking:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        begun = time.monotonic()
        for case, stack in zip(in_order, stacks, strict=True):
            time.sleep(max(0.0, begun + case.seconds - time.monotonic()))
            log = requests.get(f"{base}/log/{case.key}", timeout=60).json()
            stack.close()
            yield case, figures_of(log, case.rate, case.processes)


def together(cases: Iterable[Case], *, one_by_one: bool = False) -> Iterator[list[Case]]:
    """
    Put cases of one weather together that are measured at the same time, as many as there may be processes.

    Those that take equally long are neighbours, so that packages and stores of one rate are measured side by side.

    :param cases: all of them.
    :param one_by_one: whether each is measured by itself.
    """
    by_weather: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_weather[case.weather].append(case)
    for alike in by_weather.values():
        group: list[Case] = []
        for case in sorted(alike, key=lambda case: -case.seconds):
            if one_by_one or case.rate >= BY_ITSELF_RATE:
                yield [case]
                continue
            if group and sum(each.processes for each in (*group, case)) > TOGETHER_PROCESSES:
                yield group
                group = []
            group.append(case)
        if group:
            yield group


@contextmanager
def started(module: list[str], folder: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    """Run a module of this folder with its arguments."""
    name, *arguments = module
    command = [sys.executable, "-m", f"{MODULES}.{name}", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()
