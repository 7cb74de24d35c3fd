"""What a digest finds: recurring frames against the period before, groups of tasks, a headline, the task's result."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.digest.sums import MOST_STACKS
from airflow_provider_mediaops.cluster.folded import NO_STACK, on_one_line, short_method
from airflow_provider_mediaops.cluster.kinds_of_work import is_wait, label_of_id
from airflow_provider_mediaops.json_text import storable

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.digest.sums import Cell, Digest, Profile, ProfileKey, Row, SpanSums

StackSpans = tuple[tuple[str, ...], dict[int, float]]
"""A stack, with the pool before its frames, and its amount by the beginning of a span of time."""

_SERIES_WORDS = {
    "scheduled": ("scheduled capture", "scheduled captures"),
    "spike": ("capture at spikes", "captures at spikes"),
    "unknown": ("capture of unknown reason", "captures of unknown reason"),
}
#: The name of what all pruned stacks of a pool make up.
PRUNED = "(rare stacks)"

# What a datetime holds, in seconds since 1970.
_FIRST_SECOND = datetime.min.replace(tzinfo=timezone.utc).timestamp()
_LAST_SECOND = datetime.max.replace(tzinfo=timezone.utc, microsecond=0).timestamp()
_MOST_FRAMES = _MOST_TASKS = 200
_MOST_GONE = 50
_MOST_PLACES = 5
_MOST_IN_RESULT = 5
#: How many damaged files are named: by the JSON file and the page, and by the result.
MOST_DAMAGED, _MOST_DAMAGED_IN_RESULT = 1_000, 20
# What the result of a task has of each.
_OF_WORK = ("series", "kind", "work", "label", "captures", "of", "share_percent")
_OF_FRAME = ("series", "kind", "frame", "captures", "of", "share_percent", "nodes", "new", "pools")
_OF_TASK = ("series", "action", "opaque_id", "index", "captures", "of", "cpu_ms", "longest_ms")
_LONGEST_NAME = 300
_LONGEST_HEADLINE = 600
_NEW_IN_HEADLINE = 3
_USED = {"cpu": "the CPU", "wait": "the waiting", "block": "the blocking", "mem": "the memory"}


def keys_of(digest: Digest) -> list[ProfileKey]:
    """Return the keys of the profiles in their order on the page: by series, then the kind of most captures."""
    order = list(_SERIES_WORDS)

    def place(key: ProfileKey) -> tuple[int, int, str, str]:
        series, measure = key
        return order.index(series), -digest.profiles[key].captures, measure.kind, measure.unit

    return sorted(digest.profiles, key=place)


def series_label(series: str, kind: str, number: int | None = None) -> str:
    """Return how the captures of a profile are called, such as ``captures at spikes``, after so many of them."""
    one, several = _SERIES_WORDS[series]
    return (one if number == 1 else several) + ("" if kind == "cpu" else f" ({kind})")


def document_of(digest: Digest, sources: Iterable[str]) -> dict[str, Any]:
    """Return the digest as the JSON file has it."""
    since, until = moment(digest.period.since), moment(digest.period.until)
    before = digest.period.before
    profiles = [_profile(digest, key) for key in keys_of(digest)]
    return {
        "digest": {
            "since": since,
            "until": until,
            "before": before and {"since": moment(before[0]), "until": moment(before[1])},
            "source": list(sources),
            "headline": _headline(profiles, since, until),
            "captures": digest.captures,
            "outside": digest.outside,
            "time_from": digest.time_sources,
            "damaged": len(digest.damaged),
            "span_seconds": digest.width,
        },
        "profiles": profiles,
        "damaged": [{"file": file, "reason": reason} for file, reason in digest.damaged[:MOST_DAMAGED]],
    }


def _profile(digest: Digest, key: ProfileKey) -> dict[str, Any]:
    profile, before = digest.profiles[key], digest.before.get(key)
    return {
        "series": key[0],
        "kind": key[1].kind,
        "unit": key[1].unit,
        "captures": profile.captures,
        "captures_before": before.captures if before else 0,
        "first": moment(profile.first),
        "last": moment(profile.last),
        "frames": [_frame(name, row, profile, before) for name, row in _ranked(profile)[:_MOST_FRAMES]],
        "frames_may_lack": profile.frames.error,
        "gone": _gone(profile, before) if before and not profile.frames.error else [],
        "works": [
            {"work": work, "label": label_of_id(work), "captures": captures, "of": profile.captures, **over_time}
            for work, captures, over_time in _over_time(profile.works, profile)
        ],
        "pools": [{"pool": pool, **over_time} for pool, _, over_time in _over_time(profile.pools, profile)],
        "spans": _spans(profile.spans),
        "tasks": [_task(names, row, profile) for names, row in profile.tasks.ranked()[:_MOST_TASKS]],
        "tasks_may_lack": profile.tasks.error,
        "captures_with_tasks": profile.captures_with_tasks,
    }


def _over_time(table: SpanSums[str], profile: Profile) -> list[tuple[str, int, dict[str, Any]]]:
    """Return the names of a table, those of the highest amounts first, with their captures, share and spans."""
    return [
        (name, captures, {"share_percent": _share(amount, profile), "spans": _spans(table.rows[name])})
        for name, captures, amount in table.ranked()
    ]


def _spans(row: dict[int, Cell]) -> list[dict[str, Any]]:
    return [
        {"since": moment(span), "captures": cell.captures, "amount": cell.amount} for span, cell in sorted(row.items())
    ]


def _ranked(profile: Profile) -> list[tuple[str, Row]]:
    """Return the frames: those at work first, in the order of their captures; those in which threads wait last."""
    ranked = [(key[0], row) for key, row in profile.frames.ranked()]
    return sorted(ranked, key=lambda item: _is_wait(item[0]))


def _is_wait(name: str) -> bool:
    return name == NO_STACK or is_wait(name)


def _frame(name: str, row: Row, profile: Profile, before: Profile | None) -> dict[str, Any]:
    earlier = before.frames.rows.get((name,)) if before else None
    seen = earlier.captures if earlier else 0
    return {
        "frame": name,
        "waits": _is_wait(name),
        **_seen(row),
        "of": profile.captures,
        "share_percent": _share(row.amount, profile),
        "amount": row.amount,
        "node_names": list(_most(row.nodes)),
        "captures_before": seen if before else None,
        "of_before": before.captures if before else None,
        # A frame that was dropped from the rows of the period before may have been there.
        "new": bool(before and not seen and not before.frames.error),
    }


def _gone(profile: Profile, before: Profile) -> list[dict[str, Any]]:
    gone = [(name, row) for name, row in _ranked(before) if (name,) not in profile.frames.rows]
    return [
        {
            "frame": name,
            "waits": _is_wait(name),
            "captures_before": row.captures,
            "of_before": before.captures,
            "share_percent_before": _share(row.amount, before),
            "pools": _most(row.pools),
            "last": moment(row.last),
        }
        for name, row in gone[:_MOST_GONE]
    ]


def _task(names: tuple[str, ...], row: Row, profile: Profile) -> dict[str, Any]:
    action, *others = names
    return {
        "action": action,
        **{name: value or None for name, value in zip(("opaque_id", "index", "shape"), others, strict=True)},
        **_seen(row),
        "of": profile.captures_with_tasks,
        **{name: getattr(row, name) for name in ("running", "queued", "longest_ms", "cpu_ms")},
    }


def _seen(row: Row) -> dict[str, Any]:
    """Return in how many captures, where and when something was seen."""
    return {
        "captures": row.captures,
        "pools": _most(row.pools),
        "nodes": len(row.nodes),
        "first": moment(row.first),
        "last": moment(row.last),
    }


def _share(amount: float, profile: Profile) -> float:
    """Return the share of all captures together, in percent."""
    return round(100 * amount / profile.amount, 2) if profile.amount else 0.0


def _most(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_PLACES])


def moment(time: float | None) -> str | None:
    """Return a time in ISO 8601, in UTC."""
    if time is None:
        return None
    # The period before one of centuries, or the span of a file's odd time, may begin before the calendar.
    within = min(max(time, _FIRST_SECOND), _LAST_SECOND)
    return datetime.fromtimestamp(within, timezone.utc).isoformat(timespec="seconds")


def _headline(profiles: list[dict[str, Any]], since: str | None, until: str | None) -> str:
    """Return one or two sentences that can be posted: what recurs and what is most in each series, and what is new."""
    first = since or min((profile["first"] for profile in profiles), default="")
    last = until or max((profile["last"] for profile in profiles), default="")
    working = [frame for profile in profiles for frame in profile["frames"] if not frame["waits"]]
    new = list(dict.fromkeys(short_method(frame["frame"]) for frame in working if frame["new"]))
    sentence = f"Hot threads, {first[:10]} to {last[:10]}: {'; '.join(map(_sentence, profiles))}."
    if new:
        more = f" and {len(new) - _NEW_IN_HEADLINE} more" if len(new) > _NEW_IN_HEADLINE else ""
        sentence += f" New against the period before: {', '.join(new[:_NEW_IN_HEADLINE])}{more}."
    return storable(on_one_line(sentence).replace(r"\x3b", ";"), _LONGEST_HEADLINE)


def _sentence(profile: dict[str, Any]) -> str:
    """Return the part of the headline about one series."""
    series, kind, captures = profile["series"], profile["kind"], profile["captures"]
    top = next((frame for frame in profile["frames"] if not frame["waits"]), None)
    if top is None:
        return f"no frame at work in {captures:,} {series_label(series, kind, captures)}"
    work = next((each for each in profile["works"] if not each["work"].startswith("idle.")), None)
    hottest = f", hottest kind of work: {work['label']}, {work['share_percent']:.1f} %" if work else ""
    return (
        f"{short_method(top['frame'])} in {top['captures']:,} of {captures:,} {series_label(series, kind)}, "
        f"{top['share_percent']:.1f} % of {_USED[kind]}, pool {next(iter(top['pools']))}{hottest}"
    )


def result_of(document: dict[str, Any], paths: dict[str, str]) -> dict[str, Any]:
    """Return the result of a task: a few plain values, without the text of queries."""
    facts, profiles = document["digest"], document["profiles"]
    damaged, series = document["damaged"][:_MOST_DAMAGED_IN_RESULT], dict.fromkeys(_SERIES_WORDS, 0)
    works, frames, tasks = [], [], []
    for profile in profiles:
        series[profile["series"]] += profile["captures"]
        working = [frame for frame in profile["frames"] if not frame["waits"]]
        works += [_entry(profile, work, _OF_WORK) for work in profile["works"][:_MOST_IN_RESULT]]
        frames += [_entry(profile, frame, _OF_FRAME) for frame in working[:_MOST_IN_RESULT]]
        tasks += [_entry(profile, task, _OF_TASK) for task in profile["tasks"][:_MOST_IN_RESULT]]
    return {
        "path": paths["html"],
        "paths": paths,
        **{name: facts[name] for name in ("headline", "since", "until", "captures", "outside", "damaged")},
        "first": min(profile["first"] for profile in profiles),
        "last": max(profile["last"] for profile in profiles),
        "series": series,
        "damaged_files": [_entry({}, each, ("file", "reason")) for each in damaged],
        "works": works,
        "frames": frames,
        "tasks": tasks,
    }


def _entry(profile: dict[str, Any], entry: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return some values of an entry and of its profile, with names of a bounded length."""
    found: dict[str, Any] = {}
    for name in names:
        value = entry[name] if name in entry else profile[name]
        if isinstance(value, dict):
            value = [storable(each, _LONGEST_NAME) for each in value]
        found[name] = storable(value, _LONGEST_NAME) if isinstance(value, str) else value
    return found


def folded_of(digest: Digest) -> str:
    """
    Return the stacks for flame-graph tools: ``series;pool;outermost frame;…;innermost frame weight``.

    The weight is the sum over all captures. Captures of different series or kinds are under different roots.
    """
    lines: list[str] = []
    for series, measure in keys_of(digest):
        profile = digest.profiles[series, measure]
        root = series if measure.kind == "cpu" else f"{series} {measure.kind}"
        kept = kept_stacks(profile)
        for path, spans in [*kept, *left_of(profile, kept)]:
            weight = sum(spans.values())
            # Beyond what sums of rounded figures differ by.
            if weight > 1e-6 * (1 + profile.amount):
                lines.append(f"{';'.join(map(on_one_line, (root, *path)))} {max(1, round(weight))}\n")
    return "".join(lines)


def kept_stacks(profile: Profile) -> list[StackSpans]:
    """Return the stacks that are shown, the heaviest first: as many as are kept in any case."""
    rows = profile.stacks.rows
    return [(path, _amounts(rows[path])) for path, *_ in profile.stacks.ranked()[:MOST_STACKS]]


def left_of(profile: Profile, shown: Iterable[StackSpans]) -> list[StackSpans]:
    """Return what is left of each pool beside the stacks that are shown, as one stack a pool."""
    left = {pool: _amounts(row) for pool, row in profile.pools.rows.items()}
    for path, spans in shown:
        rest = left.get(path[0], {})
        for span in spans.keys() & rest.keys():
            rest[span] -= spans[span]
    return [((pool, PRUNED), rest) for pool, rest in left.items()]


def _amounts(row: dict[int, Cell]) -> dict[int, float]:
    return {span: cell.amount for span, cell in row.items()}
