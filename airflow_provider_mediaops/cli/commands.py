"""
The declarations of the commands: name, help and options.

Every ``airflow`` command imports this module, so it imports nothing but ``typing``. What runs a command is imported
when that command runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import argparse


class Argument(NamedTuple):
    """
    An argument or option: what ``ArgumentParser.add_argument`` takes.

    argparse takes ``%`` in a help text for a format, and rich square brackets for markup: there are none.
    """

    names: tuple[str, ...]
    settings: dict[str, Any]


class Command(NamedTuple):
    """A command. The function ``run`` of the module of its name carries it out."""

    name: str
    help: str
    description: str
    arguments: tuple[Argument, ...]


def _argument(*names: str, **settings: Any) -> Argument:
    return Argument(names, settings)


GROUP = "mediaops"
GROUP_HELP = "Check connections, rates and files of the MediaOps provider"
EPILOG = "Exit codes: 0 fine, 1 a problem was found or the command failed, 2 wrong use."

_OUTPUT = _argument(
    "-o", "--output", choices=("text", "json"), default="text", help="text, for people; json, for programs"
)

SANDBOX = Command(
    "sandbox",
    "Run a stand-in for the three services on this machine",
    "Run a stand-in for the video platform, the search cluster and the book database on one port until Ctrl-C. It "
    "prints the connections to use it as shell commands. The help of python -m airflow_provider_mediaops.sandbox lists "
    "the defaults.",
    (
        _argument("--host", help="address to listen on"),
        _argument("--port", help="port to listen on; 0 picks a free one"),
        _argument("--video-auth", help="kind of the printed video connection: bearer, refresh_token or api_key"),
        _argument("--kind-prefix", help="what stands before # in the video platform's kinds"),
        _argument("--subscriptions", help="how many subscriptions the user's own channel has"),
        _argument("--video-daily-units", help="quota units a day of the video platform"),
        _argument("--books-daily-requests", help="requests a day that the book database grants to one key"),
        _argument("--cpu-cycle", help="seconds from one CPU spike of sandbox-2 to the next"),
    ),
)

HOT_THREADS = Command(
    "hot-threads",
    "Summarize hot-threads reports from files; make pages, stacks and JSON of them",
    "Read reports of hot threads of any version of Elasticsearch and OpenSearch, as the cluster sends them and as a "
    "capture keeps them in .txt files. Show the kinds of work and the hottest threads, pools, top frames and nodes. "
    "Several reports are compared, in the order in which they are given.",
    (
        _argument("files", metavar="FILE", nargs="+", help="report, on a disk or a store; - is the standard input"),
        _argument("--html", help="write the page of all reports to this file; - is the standard output"),
        _argument("--folded", help="write their stacks for flame-graph tools to this file, or to -"),
        _argument("--kinds", action="store_true", help="with --folded: begin each stack with its kind of work"),
        _argument("--json", help="write all that was read from them as JSON to this file, or to -"),
        _argument(
            "--digest",
            metavar="PAGE",
            help="write one page about what recurs in many captures; each FILE may be a folder or a pattern then",
        ),
        _argument(
            "--since", help="with --digest: when the period begins, such as 2026-11-16; the one before is compared"
        ),
        _argument("--until", help="with --digest: when the period ends; now if not given"),
        _OUTPUT,
    ),
)

ISBN = Command(
    "isbn",
    "Check a list of ISBNs without asking the service",
    "Read a list as EnrichIsbnsOperator does. Show the columns, the delimiter and the encoding that were recognised, "
    "what is missing or wrong on which line, which books are there more than once, and how many requests, how much "
    "quota and how much time an enrichment will take. Nothing is sent.",
    (
        _argument(
            "files",
            metavar="FILE",
            nargs="+",
            help="list: .txt, .csv, .tsv, .json, .jsonl, .parquet or .xlsx; a folder or pattern",
        ),
        _argument(
            "--column",
            action="append",
            help="column of the ISBNs; given several times, the first that is filled; usual names if not given",
        ),
        _argument("--delimiter", help="character between the cells of a line; recognised if not given"),
        _argument("--encoding", help="encoding of the text; recognised if not given"),
        _argument(
            "--several",
            choices=("first", "rows"),
            default="first",
            help="of several books in a cell: the first, or all as rows of their own",
        ),
        _argument("--repair-zeros", action="store_true", help="put back the zeros that a spreadsheet has taken away"),
        _argument("--plan", choices=("default", "premium", "pro"), help="plan of the key; all plans if not given"),
        _argument("--limit", type=int, default=20, help="how many lines and books to list at most"),
        _OUTPUT,
    ),
)

CHECK = Command(
    "check",
    "Test a connection; show its rate, quota and versions",
    "Test a connection as the Test button does, whatever the option test_connection of Airflow says. Show its address "
    "and plan, the version of the service, the quota that is left today, the rate of its key, and where that is kept. "
    "A test costs one or two requests.",
    (_argument("conn_id", metavar="CONN_ID", help="id of a connection of this provider"), _OUTPUT),
)

RATE = Command(
    "rate",
    "Show who shares the rate of a key, and what is reserved, paused or used up",
    "Show the keys whose rate workers and triggerers share: which of the connections have the same key, the requests "
    "that are reserved ahead, a pause that the service asked for, and a quota that is used up.",
    (
        _argument("conn_ids", metavar="CONN_ID", nargs="+", help="ids of connections of this provider"),
        _argument(
            "--reset",
            action="store_true",
            help="forget the reservations, the pause and the used-up quota of the keys of these connections",
        ),
        _OUTPUT,
    ),
)

COMMANDS = (CHECK, HOT_THREADS, ISBN, RATE, SANDBOX)


def airflow_commands() -> list[Any]:
    """Return the commands for Airflow's own command line, from Airflow 3.2 on: the key ``cli`` of the metadata."""
    from functools import partial

    from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

    return [
        GroupCommand(
            name=GROUP,
            help=GROUP_HELP,
            epilog=EPILOG,
            subcommands=[
                ActionCommand(
                    name=command.name,
                    help=command.help,
                    description=command.description,
                    epilog=EPILOG,
                    func=partial(_run, command),
                    args=[Arg(argument.names, **argument.settings) for argument in command.arguments],
                )
                for command in COMMANDS
            ],
        )
    ]


def _run(command: Command, options: argparse.Namespace) -> None:
    """Run a command for Airflow, and exit with its exit code."""
    import sys

    from airflow_provider_mediaops.cli.run import run

    sys.exit(run(command, options))
