from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError, InvalidConnectionError, PermanentError
from airflow_provider_mediaops.storage import errors
from airflow_provider_mediaops.storage.formats import format_of
from airflow_provider_mediaops.storage.paths import (
    check_store,
    is_same_file,
    path_of,
    warn_if_deferred_to_local,
)
from airflow_provider_mediaops.storage.source_list import find_files, version_of


class TestSameFile:
    def test_a_text_too_long_for_a_path_is_refused_in_words(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgumentError, match="is not the path of a file: File name too long") as caught:
            is_same_file(",".join(["9780140449136"] * 10_000), str(tmp_path / "a.csv"))
        assert len(str(caught.value)) < 300

    @pytest.mark.parametrize("one", [str, Path.as_uri, os.path.relpath, lambda path: f"{path.parent}/./{path.name}"])
    @pytest.mark.parametrize("other", [str, Path.as_uri, os.path.relpath])
    def test_a_local_file_has_many_names(
        self, tmp_path: Path, one: Callable[[Path], str], other: Callable[[Path], str]
    ) -> None:
        file = tmp_path / "a.csv"
        assert is_same_file(one(file), other(file))
        file.touch()
        assert is_same_file(one(file), other(file))
        assert not is_same_file(one(file), other(tmp_path / "b.csv"))

    def test_links_lead_to_it(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "real" / "a.csv").touch()
        (tmp_path / "folder").symlink_to(tmp_path / "real")
        (tmp_path / "b.csv").symlink_to(tmp_path / "real" / "a.csv")
        (tmp_path / "hard.csv").hardlink_to(tmp_path / "real" / "a.csv")

        for name in ("folder/a.csv", "b.csv", "hard.csv"):
            assert is_same_file(str(tmp_path / name), str(tmp_path / "real" / "a.csv"))
        # Also one that does not exist yet.
        assert is_same_file(str(tmp_path / "folder" / "new.csv"), str(tmp_path / "real" / "new.csv"))

    # Airflow 3.1 knows no home folders in paths.
    @pytest.mark.airflow(">=3.2")
    def test_the_home_folder_is_one_too(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))

        assert is_same_file("~/a.csv", str(tmp_path / "a.csv"))

    @pytest.mark.parametrize(
        ("one", "other", "same"),
        [
            ("s3://bucket/a.csv", "s3://bucket/a.csv", True),
            ("s3://bucket/a.csv", "s3a://bucket/a.csv", True),
            ("s3://conn@bucket/a.csv", "s3://bucket/a.csv", True),
            ("s3://conn@bucket/a.csv", "s3://other@bucket/a.csv", False),
            ("s3://bucket/a.csv", "s3://bucket/b.csv", False),
            ("s3://bucket/a.csv", "s3://bucket2/a.csv", False),
            ("s3://bucket/a.csv", "gs://bucket/a.csv", False),
            ("gs://bucket/a.csv", "gcs://bucket/a.csv", True),
            ("s3://bucket/a.csv", "/bucket/a.csv", False),
            ("memory://bucket/a.csv", "memory://bucket/a.csv", True),
        ],
    )
    def test_objects_of_one_store_are_compared(self, one: str, other: str, *, same: bool) -> None:
        assert is_same_file(one, other) is same
        assert is_same_file(other, one) is same


class TestCheck:
    @pytest.mark.usefixtures("store")
    def test_store_that_can_be_opened_passes(self) -> None:
        check_store(path_of("memory://shelf@bucket/a.csv"), "source")
        check_store(path_of("/tmp/a.csv"), "source")  # noqa: S108 nothing is opened

    @pytest.mark.parametrize(
        ("path", "raised", "kind", "message"),
        [
            ("s3://b/a.csv", ImportError("requires s3fs"), PermanentError, r"\(requires s3fs\)\. Install .*\[s3fs\]"),
            (
                "s3://mine@b/a.csv",
                ValueError("the region is wrong"),
                InvalidConnectionError,
                "its connection, .* is not complete or .*region is wrong",
            ),
        ],
        ids=["no package", "a connection that cannot be used"],
    )
    def test_a_store_that_cannot_be_opened_is_named_with_what_it_lacks(
        self, monkeypatch: pytest.MonkeyPatch, path: str, raised: Exception, kind: type[Exception], message: str
    ) -> None:
        def refuse(_: str | None) -> Any:
            raise raised

        monkeypatch.setattr("airflow.sdk.io.fs._register_filesystems", lambda: {"s3": refuse})
        monkeypatch.setattr("airflow.sdk.io.store._STORE_CACHE", {})

        with pytest.raises(kind, match=f"source {path} .*{message}"):
            check_store(path_of(path), "source")

    @pytest.mark.parametrize("path", ["memory://list.csv", "hdfs://host/list.csv"])
    def test_a_scheme_that_no_provider_registers_is_answered_with_those_that_work(self, path: str) -> None:
        with pytest.raises(PermanentError, match=r"Put the file on s3://, gs://, abfs://") as told:
            check_store(path_of(path), "source")
        assert "install" not in str(told.value).lower()


class TestRefusedAddresses:
    @pytest.mark.parametrize(
        "path",
        [
            "abfs://books@acme.dfs.core.windows.net/a/b.csv",
            "wasbs://books@acme.blob.core.windows.net/b.csv",
            "https://acme.blob.core.windows.net/books/b.csv",
        ],
    )
    def test_those_of_azure_by_its_hosts_are_answered_with_the_form_of_airflow(self, path: str) -> None:
        with pytest.raises(InvalidArgumentError, match=r"Write abfs://<conn_id>@<container>/<path>"):
            path_of(path)

    @pytest.mark.parametrize(
        "path",
        [
            "https://acme.blob.core.windows.net/books/b.csv?sig=hidden",
            "https://me:hidden@host/b.csv?sig=hidden",
            "https://host/b.csv#hidden",
        ],
    )
    def test_web_address_with_a_secret_is_refused_without_it(self, path: str) -> None:
        for read in (path_of, format_of, lambda path: version_of(find_files([path]))):
            with pytest.raises(ValueError, match=r"https://\S+/b\.csv") as told:
                read(path)
            assert "hidden" not in str(told.value)

    @pytest.mark.parametrize(
        "path",
        [
            " HTTPS:/me:hidden@host/b.csv",
            "https://me:hidden?x@host/b.csv",
            "sftpp://me:hidden@host/b.csv",
            "gopher://host/b.csv?a=1&signature=hidden",
            "simplecaches::gopher://host/b.csv?token=hidden",
        ],
    )
    def test_path_that_is_refused_is_shown_without_its_secret(self, path: str) -> None:
        # Airflow 3.1 knows an unknown scheme only once the store is opened.
        with pytest.raises(
            (InvalidArgumentError, PermanentError), match=r"not the path of a file|cannot be opened"
        ) as told:
            check_store(path_of(path), "source")
        assert "hidden" not in str(told.value)

    def test_the_form_of_airflow_is_read(self) -> None:
        assert path_of("abfs://mine@books/a/b.csv").path == "books/a/b.csv"


@pytest.mark.parametrize(
    ("destination", "warned"),
    [("/data/report.txt", 1), ("file:///data/report.txt", 1), ("memory://bucket/report.txt", 0)],
)
def test_a_deferred_task_is_warned_of_a_destination_on_a_local_disk(destination: str, warned: int) -> None:
    warnings: list[str] = []
    warn_if_deferred_to_local(destination, warnings.append)
    assert len(warnings) == warned
    for warning in warnings:
        assert warning.startswith(f"destination {destination} is on a local disk")
        assert "triggerer" in warning


@pytest.mark.parametrize(
    "made",
    [made for name, made in vars(errors).items() if name.endswith("_error") and inspect.isfunction(made)],
    ids=lambda made: made.__name__,
)
@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("s3://me:hush-hush@bucket/d.csv", "s3://me:***@bucket/d.csv"),
        ("gs://bucket/d.csv?signature=hush-hush", "gs://bucket/d.csv "),
    ],
)
def test_error_of_a_destination_shows_neither_its_password_nor_its_query(
    made: Callable[..., Exception], path: str, shown: str
) -> None:
    _, *others = inspect.signature(made).parameters.values()
    needed: dict[str, Any] = {each.name: "1" for each in others if each.default is each.empty}

    error = made(path, **needed)

    assert shown in str(error)
    assert "hush-hush" not in repr(error) + str(error)
