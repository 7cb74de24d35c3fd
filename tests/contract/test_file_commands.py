"""The commands that read files, in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import fresh_python

pytestmark = pytest.mark.long

PROVIDER = "airflow_provider_mediaops"
REPORT = Path(__file__).parents[1] / "data" / "hot_threads" / "opensearch-3.8.0-cpu.txt"
FORMS = [
    pytest.param(("-m", "airflow", "mediaops"), marks=pytest.mark.airflow(">=3.2"), id="airflow mediaops"),
    pytest.param(("-m", PROVIDER), id="python -m"),
]


def test_a_local_report_is_read_without_airflow() -> None:
    """Importing Airflow takes longer than all the rest."""
    loaded = fresh_python.result_of(
        "import sys\n"
        f"from {PROVIDER}.cli.program import main\n"
        "from contextlib import redirect_stdout\n"
        "from io import StringIO\n"
        "with redirect_stdout(StringIO()):\n"
        f"    code = main(['hot-threads', {str(REPORT)!r}])\n"
        "result = [code, 'airflow' in sys.modules, 'requests' in sys.modules]\n"
    )
    assert loaded == [0, False, False]


@pytest.mark.parametrize("form", FORMS)
def test_both_forms_end_alike(form: tuple[str, ...], tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("9780306406157\nno ISBN\n")

    summarized = fresh_python.run(*form, "hot-threads", str(REPORT))
    checked = fresh_python.run(*form, "isbn", str(listed))

    assert (summarized.returncode, checked.returncode) == (0, 1)
    assert summarized.stdout.startswith(f"{REPORT}: 2 nodes, 2 threads")
    assert checked.stdout.startswith(f"{listed}: txt, encoding utf-8; 2 rows\n2 rows, 1 ISBN, 0 missing, 1 invalid")
    # No line of a log or a traceback is between them.
    assert "Traceback" not in summarized.stderr + checked.stderr
