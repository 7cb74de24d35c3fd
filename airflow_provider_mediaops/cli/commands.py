"""
The declarations of the commands: name, help and options.

Every ``airflow`` command imports this module, so it imports nothing but ``typing`` and declares plain tuples. What runs
a command is imported when that command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import argparse


class Argument(NamedTuple):
    """
    An argument or option of a command, with further keyword arguments of ``ArgumentParser.add_argument``.

    Help is read by argparse, which takes ``%`` for a format, and by rich, which takes square brackets for markup:
    neither is in a help text.
    """

    names: tuple[str, ...]
    help: str
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Command(NamedTuple):
    """
    A command. It is run by the function ``run`` of the module of its name in this package.

    That takes the options that were given, and a :class:`~airflow_provider_mediaops.cli.terminal.Terminal` to ask and
    to report progress, and returns a :class:`~airflow_provider_mediaops.cli.terminal.Result`.
    """

    name: str
    help: str
    description: str
    arguments: tuple[Argument, ...] = ()
    # Whether it ends with a result, and so has the option --output.
    has_output: bool = True


GROUP = "mediaops"
GROUP_HELP = "Check connections, rates and files of the MediaOps provider"
EPILOG = "Exit codes: 0 fine, 1 a problem was found or the command failed, 2 wrong use."

OUTPUT = Argument(
    ("-o", "--output"), "text, for people; json, for programs", {"choices": ("text", "json"), "default": "text"}
)

SANDBOX = Command(
    "sandbox",
    "Run a stand-in for the three services on this machine",
    "Run a stand-in for the video platform, the search cluster and the book database on one port until Ctrl-C. "
    "It prints the connections to use it as shell commands. The default of each option is that of "
    "python -m airflow_provider_mediaops.sandbox, whose help lists them.",
    (
        Argument(("--host",), "address to listen on"),
        Argument(("--port",), "port to listen on; 0 picks a free one"),
        Argument(("--video-auth",), "kind of the printed video connection: bearer, refresh_token or api_key"),
        Argument(("--kind-prefix",), "what stands before # in the video platform's kinds"),
        Argument(("--subscriptions",), "how many subscriptions the user's own channel has"),
        Argument(("--video-daily-units",), "quota units a day of the video platform"),
        Argument(("--books-daily-requests",), "requests a day that the book database grants to one key"),
        Argument(("--cpu-cycle",), "seconds from one CPU spike of sandbox-2 to the next"),
    ),
    has_output=False,
)

HOT_THREADS = Command(
    "hot-threads",
    "Summarize hot-threads reports from files; make pages, stacks and JSON of them",
    "Read reports of hot threads of any version of Elasticsearch and OpenSearch, as the cluster sends them and as a "
    "capture keeps them in .txt files. Show the kinds of work and the hottest threads, pools, top frames and nodes. "
    "Several reports are compared, in the order in which they are given.",
    (
        Argument(
            ("files",),
            "report; - is the standard input; s3:// and other stores work as in tasks",
            {"nargs": "+", "metavar": "FILE"},
        ),
        Argument(("--html",), "write the page of all reports to this file; - is the standard output"),
        Argument(("--folded",), "write their stacks for flame-graph tools to this file, or to -"),
        Argument(
            ("--kinds",),
            "with --folded: begin each stack with its kind of work, so that a flame graph shows the kinds first",
            {"action": "store_true"},
        ),
        Argument(("--json",), "write all that was read from them as JSON to this file, or to -"),
        Argument(
            ("--digest",),
            "write one page about what recurs in many captures to this file, with JSON and folded stacks beside it; "
            "each FILE may be a folder or a pattern then",
            {"metavar": "PAGE"},
        ),
        Argument(("--since",), "with --digest: when the period begins, such as 2026-11-16; the one before is compared"),
        Argument(("--until",), "with --digest: when the period ends; now if not given"),
    ),
)

ISBN = Command(
    "isbn",
    "Check a list of ISBNs without asking the service",
    "Read a list as EnrichIsbnsOperator does. Show the columns, the delimiter and the encoding that were recognised, "
    "what is missing or wrong on which line, which books are there more than once, and how many requests, how much "
    "quota and how much time an enrichment will take. Nothing is sent.",
    (
        Argument(
            ("files",),
            "list: .txt, .csv, .tsv, .json or .jsonl, each also with .gz, .parquet or .xlsx; or a folder or a pattern; "
            "- is the standard input",
            {"metavar": "FILE", "nargs": "+"},
        ),
        Argument(
            ("--column",),
            "column or field that holds the ISBNs; given several times, the first that is filled in a row; columns "
            "with a usual name if not given",
            {"action": "append"},
        ),
        Argument(("--delimiter",), "character between the cells of a line; recognised if not given"),
        Argument(("--encoding",), "encoding of the text; recognised if not given"),
        Argument(
            ("--several",),
            "of several books in a cell: the first, or all as rows of their own",
            {"choices": ("first", "rows"), "default": "first"},
        ),
        Argument(
            ("--repair-zeros",),
            "put back the zeros that a spreadsheet has taken away",
            {"action": "store_true"},
        ),
        Argument(
            ("--format",),
            "format of the standard input",
            {"choices": ("txt", "csv", "tsv", "json", "jsonl", "parquet", "xlsx"), "default": "txt"},
        ),
        Argument(
            ("--plan",),
            "plan of the key; all plans if not given",
            {"choices": ("default", "premium", "pro")},
        ),
        Argument(("--quota",), "requests a day that the key has, to count the days", {"type": int}),
        Argument(("--limit",), "how many lines and books to list at most", {"type": int, "default": 20}),
    ),
)

CHECK = Command(
    "check",
    "Test a connection; show its rate, quota and versions",
    "Test a connection as the Test button does, whatever the option test_connection of Airflow says. Show its address "
    "and plan, the version of the service, the quota that is left today, the rate of its key, and where that is kept. "
    "A test costs one or two requests.",
    (Argument(("conn_id",), "id of a connection of this provider", {"metavar": "CONN_ID"}),),
)

RATE = Command(
    "rate",
    "Show who shares the rate of a key, and what is reserved, paused or used up",
    "Show the keys whose rate workers and triggerers share: the connections of a key, the requests that are reserved "
    "ahead, a pause that the service asked for, and a quota that is used up. A key is named by its connections and a "
    "fingerprint. Without CONN_ID, the connections of the environment and of Airflow's database are shown; those of a "
    "secrets backend cannot be listed. No service is asked.",
    (
        Argument(("conn_ids",), "ids of connections of this provider", {"metavar": "CONN_ID", "nargs": "*"}),
        Argument(
            ("--reset",),
            "forget what is kept of the keys of these connections: reservations, pauses, and a quota that is used up",
            {"action": "store_true"},
        ),
    ),
)

COMMANDS = (CHECK, HOT_THREADS, ISBN, RATE, SANDBOX)


def arguments_of(command: Command) -> tuple[Argument, ...]:
    """Return all arguments and options of a command."""
    return (*command.arguments, OUTPUT) if command.has_output else command.arguments


def runner_of(command: Command) -> Callable[[argparse.Namespace], None]:
    """Return the function that Airflow calls with the options. It exits with the command's exit code."""

    def run_command(options: argparse.Namespace) -> None:
        import sys

        from airflow_provider_mediaops.cli.run import run

        sys.exit(run(command, options))

    return run_command


def airflow_commands() -> list[Any]:
    """Return the commands for Airflow's own command line, from Airflow 3.2 on: the key ``cli`` of the metadata."""
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
                    func=runner_of(command),
                    args=[
                        Arg(flags=argument.names, help=argument.help, **argument.settings)
                        for argument in arguments_of(command)
                    ],
                )
                for command in COMMANDS
            ],
        )
    ]
