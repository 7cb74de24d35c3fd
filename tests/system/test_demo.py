"""How the demo ends where it does not succeed, with an example of the test's own in a copy of its folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.system.running import processes_with, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
MARK = "MEDIAOPS_SYSTEM_TEST"
REFUSED = """
from airflow.sdk import DAG
from airflow_provider_mediaops.operators.video import PostBulletinOperator

with DAG("mediaops_refused", schedule=None):
    PostBulletinOperator(task_id="post", text="To whom?", video_id="a-video-that-is-not-there")
"""


class Demo:
    """A demo that is running, with what it has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, mark: str) -> None:
        self.process = process
        self._log = log
        self._mark = mark

    @property
    def printed(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def started(self) -> list[int]:
        """Give the processes that it has started and that have not ended."""
        return [process.pid for process in processes_with(MARK, self._mark) if process.pid != self.process.pid]

    def has_printed(self, text: str) -> bool:
        """Tell whether it has printed something, and see to it that it is still at work."""
        assert self.process.poll() is None, self.printed
        return text in self.printed


@contextmanager
def running_demo(folder: Path, name: str, example: str) -> Iterator[Demo]:
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "example_dags").mkdir()
    (folder / "example_dags" / f"example_{name}.py").write_text(example)
    mark, log = uuid.uuid4().hex, folder / "printed"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "scripts.demo", "--keep"],
            cwd=folder,
            env={**os.environ, MARK: mark},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # what Ctrl-C reaches in a terminal: the demo, and what shares its group
        )
    try:
        yield Demo(process, log, mark)
    finally:
        for left in processes_with(MARK, mark):
            left.kill()
        process.wait(600)


def test_a_failed_example_fails_the_demo_and_is_explained_and_ctrl_c_ends_all_that_was_started(tmp_path: Path) -> None:
    with running_demo(tmp_path, "refused", REFUSED) as demo:
        wait_for(lambda: demo.has_printed("Ctrl-C ends everything"), "the demo stays up", 1800)
        assert "mediaops_refused ended: failed" in demo.printed
        assert "The end of the log of mediaops_refused.post:" in demo.printed
        assert "NotFoundError: " in demo.printed
        assert "videoNotFound" in demo.printed
        assert len(demo.started()) >= 5  # the sandbox and the four components, at least
        os.killpg(demo.process.pid, signal.SIGINT)
        assert demo.process.wait(600) == 1
        assert demo.started() == []
