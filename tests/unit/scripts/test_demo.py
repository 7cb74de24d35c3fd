"""How the demo ends when it is interrupted on its way."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from scripts import demo

if TYPE_CHECKING:
    import pytest


def test_interrupted_demo_says_so_and_exits_as_a_program_that_ctrl_c_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo.Demo, "run", interrupted)
    monkeypatch.setattr(sys, "argv", ["make demo"])
    assert demo.main() == 130
    assert "Interrupted: everything is stopped." in capsys.readouterr().out
