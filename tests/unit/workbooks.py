"""Write workbooks of Excel for tests."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openpyxl import Workbook


def workbook(
    file: Path, sheets: Mapping[str, Sequence[Sequence[Any]]], *, computed: Mapping[str, str] | None = None
) -> None:
    """Write a workbook."""
    book = Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    book.save(file)
    if computed:
        _note(file, computed)


def _note(file: Path, computed: Mapping[str, str]) -> None:
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts.items():
            for formula, value in computed.items():
                old = re.compile(rb"<f>" + re.escape(formula[1:].encode()) + rb"</f><v ?/?>(</v>)?")
                data = old.sub(b"<f>%b</f><v>%b</v>" % (formula[1:].encode(), value.encode()), data)  # noqa: PLW2901
            archive.writestr(name, data)
