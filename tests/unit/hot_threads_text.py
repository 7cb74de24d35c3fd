"""Hot-threads texts made to measure, and one whose every name is an attack."""

from __future__ import annotations

ATTACKS = (
    "</script><img src=x onerror=window.ran=1>",
    "<script>window.ran=1</script>",
    "'\"><svg/onload=window.ran=1>",
    "{{7*7}}{% raw %}${7*7}",
    "]]><!--",
    "javascript:window.ran=1",
    "&lt;b&gt;&#60;",
    "a;b\\c",
    "\u202eevil\u2028\u2029\u0085\ufeff",
    "\x00\x1b[31m\x7f",
    b"\xff\xfe\xc3".decode("utf-8", "surrogateescape"),
    "\ud800",
)
"""What a name, a frame or a header may hold."""


def section(node: str, *threads: str, at: str = "2026-03-14T20:00:00.000Z") -> str:
    """Give one node's part of a report."""
    return (
        f"::: {{{node}}}{{id_of_{node}}}{{ephemeral}}{{{node}.example}}{{10.0.0.1:9300}}{{dimr}}{{zone=a}}\n"
        f"   Hot threads at {at}, interval=500ms, busiestThreads=3, ignoreIdleThreads=true:\n"
        f"   \n{''.join(threads)}\n"
    )


def thread(name: str, usage: str = "50.0% (250ms out of 500ms) cpu usage", *stacks: str) -> str:
    """Give a thread's line and its stacks."""
    return f"   {usage} by thread '{name}'\n{''.join(stacks)}   \n"


def cpu(share: float) -> str:
    """Give what a thread's line says first."""
    return f"{share}% ({share * 5:.0f}ms out of 500ms) cpu usage"


def split(percent: float, on_cpu: float, **rest: float) -> str:
    """Return a thread's usage as Elasticsearch from 7.16 on prints it; `rest` is `other` or `idle`, in percent."""
    ((name, rest_percent),) = rest.items()
    return f"{percent}% [cpu={on_cpu}%, {name}={rest_percent}%] (250ms out of 500ms) cpu usage"


def stack(snapshots: int, *frames: str, total: int = 10) -> str:
    """Give a stack, innermost frame first, as the servers print it."""
    lines = "".join(f"       {frame}\n" for frame in frames)
    return f"     {snapshots}/{total} snapshots sharing following {len(frames)} elements\n{lines}"


def unique(*frames: str) -> str:
    """Give a stack that was seen once."""
    return "     unique snapshot\n" + "".join(f"       {frame}\n" for frame in frames)


def hostile() -> str:
    """Give a report with an attack in each name: of node, pool, thread, method, file, and in a line of no meaning."""
    return "".join(
        section(
            f"node {attack}",
            thread(
                f"opensearch[node {attack}][pool {attack}][T#1] {attack}",
                cpu(10.0 + number),
                stack(6, f"org.x.{_joined(attack)}.run(F.java:1)", f"org.x.Y.call({attack}.java:2)"),
                unique(f"a.b.{_joined(attack)}(Native Method)"),
            ),
            f"   what is this {attack}\n",
        )
        for number, attack in enumerate(ATTACKS)
    )


def _joined(attack: str) -> str:
    """A method's name ends at the first bracket and holds no blank."""
    return "".join(attack.replace("(", "").split())
