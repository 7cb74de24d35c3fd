"""404s in each of their words, and a book that exists."""

from __future__ import annotations

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError, ForeignNotFoundError, WebPageNotFoundError
from airflow_provider_mediaops.exceptions import NotFoundError
from tests.unit.book_database import PROGRAMMING

CANARY = PROGRAMMING
CLEAR = NotFoundError("404: no such book.", status=404, excerpt='{"error_message": "no such book"}')
LIMIT = DoubtfulNotFoundError("404: Not Found.", status=404)
FOREIGN = ForeignNotFoundError("404: no Route matched.", status=404)
PAGE = WebPageNotFoundError("404: <html>.", status=404)
WORDS = {"clear": CLEAR, "limit": LIMIT, "foreign": FOREIGN, "web page": PAGE}
