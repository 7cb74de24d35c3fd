"""The text of a hot-threads report, in the form of OpenSearch 2 and in that of Elasticsearch 9."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_mediaops.sandbox.cluster.nodes import HOST
from airflow_provider_mediaops.sandbox.cluster.threads import BUSY, IDLE, Stack, Thread
from airflow_provider_mediaops.sandbox.cluster.units import bytes_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_provider_mediaops.sandbox.cluster.nodes import Node

# Allocating a byte takes this much CPU, in the sandbox.
_NANOS_A_BYTE = 4


@dataclass(frozen=True, slots=True)
class Sampling:
    """
    The sampling that a request for hot threads asks for.

    :param interval: nanoseconds between the samplings.
    :param snapshots: samples of each thread's stack.
    :param threads: threads to report a node.
    :param ignore_idle: whether idle threads are left out.
    :param type: what is measured: ``block``, ``cpu``, ``wait``, or ``mem``.
    :param sort: ``total``, or ``cpu`` to leave other times out of the order.
    """

    interval: int
    snapshots: int
    threads: int
    ignore_idle: bool
    type: str
    sort: str = "total"

    @property
    def seconds(self) -> float:
        """How long the sampling takes."""
        return self.interval / 1e9 + self.snapshots * 0.01


def _percent(nanos: int, interval: int) -> float:
    return 100 * nanos / interval if interval else math.nan


def _percent_text(percent: float) -> str:
    return f"{percent:.1f}".replace("nan", "NaN")


class OpenSearchForm:
    """The form of OpenSearch 1 to 3, and of Elasticsearch up to 7.15."""

    program: ClassVar[str] = "opensearch"
    manager: ClassVar[str] = "clusterManagerService"
    attributes: ClassVar[Mapping[str, str]] = {"shard_indexing_pressure_enabled": "true"}
    code: ClassVar[Mapping[str, str]] = {
        "java": "java.base@21.0.5/",
        "server": "app//org.opensearch.",
        "lucene": "app//org.apache.lucene.",
        "netty": "app//io.netty.",
    }

    def header(self, node: Node) -> str:
        """Write the head of a node's section."""
        identity = (node.name, node.id, node.ephemeral_id)
        return _slots(*identity, HOST, node.address, node.role_letters, self._attribute_text(node))

    def attributes_of(self, node: Node) -> dict[str, str]:
        """Return a node's attributes: its own, and what every node of the product has."""
        return {**self.attributes, **node.attributes}

    def _attribute_text(self, node: Node) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.attributes_of(node).items())

    def order(self, threads: tuple[Thread, ...], sampling: Sampling) -> list[Thread]:
        """Put threads in the order of a report."""
        return list(threads)

    def usage(self, thread: Thread, cpu: float, sampling: Sampling) -> str:
        """Write what a thread used; waiting and blocking are not measured, and read zero."""
        spent = round(sampling.interval * cpu * thread.share / 100_000) if sampling.type == "cpu" else 0
        return self._time(spent, sampling)

    def _time(self, spent: int, sampling: Sampling) -> str:
        percent = _percent_text(_percent(spent, sampling.interval))
        return f"{percent:>4}% ({time_text(spent)} out of {time_text(sampling.interval)}) {sampling.type} usage"


class ElasticsearchForm(OpenSearchForm):
    """The form of Elasticsearch 9."""

    program = "elasticsearch"
    manager = "masterService"
    attributes: ClassVar[Mapping[str, str]] = {"xpack.installed": "true"}
    code: ClassVar[Mapping[str, str]] = {
        "java": "java.base@24.0.1/",
        "server": "app/org.elasticsearch.server@9.1.0/org.elasticsearch.",
        "lucene": "app/org.apache.lucene.core@10.2.2/org.apache.lucene.",
        "netty": "io.netty.transport@4.1.118.Final/io.netty.",
    }

    def header(self, node: Node) -> str:
        """Write the head of a node's section: also an external id, the version and those of its indices."""
        identity = (node.name, node.id, node.ephemeral_id, node.name)
        versions = ("9.1.0", "8000099-9033000")
        return _slots(*identity, HOST, node.address, node.role_letters, *versions, self._attribute_text(node))

    def order(self, threads: tuple[Thread, ...], sampling: Sampling) -> list[Thread]:
        """Put threads in the order of a report: by their CPU, to which other times are added unless asked not to."""
        with_other = sampling.type == "cpu" and sampling.sort == "total"
        return sorted(threads, key=lambda thread: -thread.share - (thread.other if with_other else 0))

    def usage(self, thread: Thread, cpu: float, sampling: Sampling) -> str:
        """Write what a thread used; CPU and other time are shown apart, and waiting is measured."""
        interval = sampling.interval
        spent = round(interval * cpu * thread.share / 100_000)
        if sampling.type == "mem":
            return f"{bytes_text(spent // _NANOS_A_BYTE)} memory allocated"
        if sampling.type != "cpu":
            return self._time(interval if thread.idle and sampling.type == "wait" else 0, sampling)
        # An idle transport thread is called so, and its idleness is no part of the leading figure.
        transport = "[transport_worker]" in thread.name
        other = interval - spent if transport else round(interval * cpu * thread.other / 100_000)
        total = spent if transport else spent + other
        figures = [_percent_text(_percent(nanos, interval)) for nanos in (total, spent, other)]
        split = f"[cpu={figures[1]}%, {'idle' if transport else 'other'}={figures[2]}%]"
        return f"{figures[0]:>4}% {split} ({time_text(spent + other)} out of {time_text(interval)}) cpu usage"


def _slots(*slots: str) -> str:
    return "".join(f"{{{slot}}}" for slot in slots)


def section(node: Node, *, cpu: float, at: str, sampling: Sampling, form: OpenSearchForm) -> str:
    """
    Write one node's part of the report.

    :param node: the node.
    :param cpu: its CPU in percent; nothing is hot if it is zero or not known.
    :param at: when it was measured, in ISO 8601.
    :param sampling: what was asked for.
    :param form: the form of the product.
    :returns: the section, with the empty line that ends it.
    """
    interval = time_text(sampling.interval)
    ignoring = "true" if sampling.ignore_idle else "false"
    asked = f"interval={interval}, busiestThreads={sampling.threads}, ignoreIdleThreads={ignoring}"
    lines = [f"Hot threads at {at}, {asked}:"]
    threads = form.order(BUSY if cpu > 0 else (), sampling) + list(() if sampling.ignore_idle else IDLE)
    # Without a snapshot, no thread is seen.
    for thread in threads[: sampling.threads if sampling.snapshots else 0]:
        name = thread.name.format(program=form.program, node=node.name, manager=form.manager)
        lines += ["", f"{form.usage(thread, cpu, sampling)} by thread '{name}'", *_stacks(thread, sampling, form)]
    # The cluster indents every line of a node's report, empty ones too.
    return f"::: {form.header(node)}\n" + "".join(f"   {line}\n" for line in lines) + "\n"


def _stacks(thread: Thread, sampling: Sampling, form: OpenSearchForm) -> Iterator[str]:
    for count, frames in _groups(_snapshots(thread, sampling.snapshots)):
        if count == 1:
            yield "  unique snapshot"
        else:
            yield f"  {count}/{sampling.snapshots} snapshots sharing following {len(frames)} elements"
        for frame in frames:
            code, _, rest = frame.partition(":")
            yield f"    {form.code[code]}{rest}"


def _snapshots(thread: Thread, count: int) -> list[tuple[int, Stack]]:
    """Share out the snapshots among the stacks; what rounding leaves over shows the first."""
    counts = [count * tenths // 10 for tenths, _ in thread.seen]
    counts[0] += count - sum(counts)
    return [(number, stack) for number, (_, stack) in zip(counts, thread.seen, strict=True) if number]


def _groups(snapshots: list[tuple[int, Stack]]) -> Iterator[tuple[int, Stack]]:
    """
    Group snapshots as the cluster does: each with those later ones whose stacks have most frames in common with it.

    Several snapshots with one stack have all of it in common, so only a stack seen once can join others.
    """
    rest = list(snapshots)
    while rest:
        count, stack = rest.pop(0)
        common = [_frames_in_common(stack, other) for _, other in rest]
        most = max(common, default=0)
        if count > 1 or not most:
            yield count, stack
            continue
        together = [index for index, frames in enumerate(common) if frames == most]
        yield 1 + sum(rest[index][0] for index in together), stack[-most:]
        rest = [entry for index, entry in enumerate(rest) if index not in together]


def _frames_in_common(one: Stack, other: Stack) -> int:
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        count += 1
    return count
