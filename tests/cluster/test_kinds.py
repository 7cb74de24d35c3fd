"""The JDK and the artifacts of a kind of server, and the errors of a machine that lacks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import kinds
from tests.cluster.kinds import KINDS, Kind
from tests.java_artifacts import Jdk, UnavailableError, jdks_in

if TYPE_CHECKING:
    from pathlib import Path

OPENSEARCH = KINDS[0]
ELASTICSEARCH = KINDS[-1]


def make_jdk(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "javac").touch()
    (home / "release").write_text(f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{version}"\nOS_ARCH="x86_64"\n')
    return home


@pytest.mark.parametrize(("text", "version"), [("21.0.7", 21), ("25", 25), ("1.8.0_402", 8), ("26-ea", 26)])
def test_the_version_of_a_jdk(tmp_path: Path, text: str, version: int) -> None:
    assert list(jdks_in([make_jdk(tmp_path, text)])) == [Jdk(home=tmp_path, version=version)]


def test_a_runtime_without_a_compiler_is_no_jdk(tmp_path: Path) -> None:
    (make_jdk(tmp_path, "21.0.7") / "bin" / "javac").unlink()
    assert list(jdks_in([tmp_path, tmp_path / "missing"])) == []


def test_the_jdk_of_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_jdk(tmp_path, "99")))
    assert Kind("opensearch", "3.8.0.0", range(21, 100)).jdk() == Jdk(home=tmp_path, version=99)


def test_a_jdk_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_jdk(tmp_path, "1.8.0_402")))
    with pytest.raises(UnavailableError, match=r"opensearch-2\.19 needs a JDK of Java 9999 or later; found: .*8"):
        Kind("opensearch", "2.19.1.0", range(9_999, 10_000)).jdk()


def test_a_jdk_that_is_too_new_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_jdk(tmp_path, "9999")))
    with pytest.raises(UnavailableError, match=r"needs a JDK of Java 9998 or later; found: .*9999"):
        Kind("elasticsearch", "7.17.28", range(9_998, 9_999)).jdk()


def test_every_kind_has_a_name_of_its_own() -> None:
    assert len({str(kind) for kind in KINDS}) == len(KINDS)


def test_a_missing_maven_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="mvn"):
        OPENSEARCH.class_path(Jdk(home=tmp_path, version=21))


def test_the_output_of_maven_is_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho could not resolve something\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setattr(kinds, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="could not resolve something"):
        OPENSEARCH.class_path(Jdk(home=tmp_path, version=21))
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_class_path_is_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "node.jar"
    jar.touch()
    maven = tmp_path / "mvn"
    maven.write_text(
        '#!/bin/sh\nfor argument; do case "$argument" in -Dmdep.outputFile=*) '
        f'printf %s "{jar}" > "${{argument#*=}}";; esac; done\necho run >> "{tmp_path}/runs"\n'
    )
    maven.chmod(0o755)
    monkeypatch.setattr(kinds, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    jdk = Jdk(home=tmp_path, version=21)
    assert OPENSEARCH.class_path(jdk) == OPENSEARCH.class_path(jdk) == str(jar)
    assert (tmp_path / "runs").read_text() == "run\n"
    jar.unlink()
    OPENSEARCH.class_path(jdk)
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_a_distribution_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text(
        '#!/bin/sh\nfor argument; do case "$argument" in -DoutputDirectory=*) folder="${argument#*=}";; esac; done\n'
        f'mkdir -p "$folder"; echo zipped > "$folder/elasticsearch-9.1.0.zip"; echo "$*" >> "{tmp_path}/runs"\n'
    )
    maven.chmod(0o755)
    monkeypatch.setattr(kinds, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    jdk = Jdk(home=tmp_path, version=21)
    path = ELASTICSEARCH.zip(jdk)
    assert ELASTICSEARCH.zip(jdk) == path
    assert path.read_text() == "zipped\n"
    assert list((tmp_path / "cache").iterdir()) == [path]
    [run] = (tmp_path / "runs").read_text().splitlines()
    assert "org.elasticsearch.distribution.integ-test-zip:elasticsearch:9.1.0:zip" in run
