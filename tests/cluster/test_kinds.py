"""How a JDK is found, and what is said on a machine that cannot start a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.cluster.artifacts import class_path, fitting_jdk, secured_zip

from tests.cluster import artifacts
from tests.java_artifacts import Jdk, UnavailableError, jdks_in

if TYPE_CHECKING:
    from pathlib import Path


def make_jdk(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "javac").touch()
    (home / "release").write_text(f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{version}"\nOS_ARCH="x86_64"\n')
    return home


@pytest.mark.parametrize(("text", "version"), [("21.0.7", 21), ("25", 25), ("1.8.0_402", 8), ("26-ea", 26)])
def test_a_jdk_tells_its_version(tmp_path: Path, text: str, version: int) -> None:
    assert list(jdks_in([make_jdk(tmp_path, text)])) == [Jdk(home=tmp_path, version=version)]


def test_a_runtime_without_a_compiler_is_no_jdk(tmp_path: Path) -> None:
    (make_jdk(tmp_path, "21.0.7") / "bin" / "javac").unlink()
    assert list(jdks_in([tmp_path, tmp_path / "missing"])) == []


def test_the_jdk_of_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_jdk(tmp_path, "99")))
    assert fitting_jdk("opensearch-3") == Jdk(home=tmp_path, version=99)


def test_a_jdk_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_jdk(tmp_path, "1.8.0_402")))
    monkeypatch.setitem(artifacts.LOWEST_JAVA, "opensearch-2", 9_999)
    with pytest.raises(UnavailableError, match=r"opensearch-2 needs a JDK of Java 9999 or later; found: .*8"):
        fitting_jdk("opensearch-2")


def test_a_missing_maven_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="mvn"):
        class_path("opensearch-2", Jdk(home=tmp_path, version=21))


def test_what_maven_complains_of_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho could not resolve something\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setattr(artifacts, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="could not resolve something"):
        class_path("opensearch-2", Jdk(home=tmp_path, version=21))
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
    monkeypatch.setattr(artifacts, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    jdk = Jdk(home=tmp_path, version=21)
    assert class_path("opensearch-2", jdk) == class_path("opensearch-2", jdk) == str(jar)
    assert (tmp_path / "runs").read_text() == "run\n"
    jar.unlink()
    class_path("opensearch-2", jdk)
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_a_distribution_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text(
        '#!/bin/sh\nfor argument; do case "$argument" in -DoutputDirectory=*) folder="${argument#*=}";; esac; done\n'
        f'mkdir -p "$folder"; echo zipped > "$folder/elasticsearch-9.1.0.zip"; echo "$*" >> "{tmp_path}/runs"\n'
    )
    maven.chmod(0o755)
    monkeypatch.setattr(artifacts, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    jdk = Jdk(home=tmp_path, version=21)
    path = secured_zip("elasticsearch-9", jdk)
    assert secured_zip("elasticsearch-9", jdk) == path
    assert path.read_text() == "zipped\n"
    assert list((tmp_path / "cache").iterdir()) == [path]
    [run] = (tmp_path / "runs").read_text().splitlines()
    assert "org.elasticsearch.distribution.integ-test-zip:elasticsearch:9.1.0:zip" in run
