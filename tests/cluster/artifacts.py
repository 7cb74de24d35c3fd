"""What a node is started from: a JDK of this machine, and OpenSearch's published Maven artifacts."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FOLDER = Path(__file__).parent
POM = FOLDER / "pom.xml"
CACHE = FOLDER.parents[1] / ".cache" / "opensearch"
MAVEN_SECONDS = 600
# In a JDK's file "release". Java 8 called itself 1.8.
VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)

LOWEST_JAVA = {"opensearch-2": 11, "opensearch-3": 21}
"""The releases that can be started (profiles of pom.xml), each with the first Java it runs on."""


class UnavailableError(Exception):
    """This machine cannot start a cluster; the message says what it lacks."""


@dataclass(frozen=True)
class Jdk:
    """A Java development kit (a runtime alone has no compiler, and Node.java is started from its source)."""

    home: Path
    version: int


def installed_jdks() -> Iterator[Jdk]:
    """Yield the JDKs of this machine: JAVA_HOME's, the PATH's, then those in the system's JVM folder."""
    javac = shutil.which("javac")
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    homes += [Path(javac).resolve().parents[1]] if javac else []
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    return jdks_in(homes)


def jdks_in(homes: Iterable[Path]) -> Iterator[Jdk]:
    """Yield those of the folders that hold a JDK.

    :param homes: folders that may be a JDK's home
    """
    for home in homes:
        release = home / "release"
        if not release.is_file() or not (home / "bin" / "javac").exists():
            continue
        version = VERSION.search(release.read_text(encoding="utf-8"))
        if version:
            yield Jdk(home=home, version=int(version[1]))


def fitting_jdk(release: str) -> Jdk:
    """Find a JDK that runs a release.

    :param release: one of :data:`LOWEST_JAVA`
    :raises UnavailableError: there is none
    """
    jdks = list(installed_jdks())
    for jdk in jdks:
        if jdk.version >= LOWEST_JAVA[release]:
            return jdk
    found = ", ".join(sorted({str(jdk.version) for jdk in jdks})) or "none"
    raise UnavailableError(f"{release} needs a JDK of Java {LOWEST_JAVA[release]} or later; found: {found}.")


def startable_releases() -> list[str]:
    """List the releases that have a fitting JDK here."""
    newest = max((jdk.version for jdk in installed_jdks()), default=0)
    return [release for release, java in LOWEST_JAVA.items() if newest >= java]


def class_path(release: str, jdk: Jdk) -> str:
    """Resolve the Java class path of a release: the first time by Maven, then from the checkout's cache.

    :param release: one of :data:`LOWEST_JAVA`
    :param jdk: runs Maven
    :raises UnavailableError: there is no Maven, or it could not get the artifacts
    """
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    cached = CACHE / f"{release}-{digest}.classpath"
    if cached.exists():
        path = cached.read_text(encoding="utf-8")
        if all(Path(jar).exists() for jar in path.split(os.pathsep)):
            return path
    CACHE.mkdir(parents=True, exist_ok=True)
    # Complete or not there at all, also when two sessions build it at once.
    fresh = cached.with_suffix(f".{os.getpid()}")
    try:
        _run_maven(release, jdk, fresh)
        fresh.replace(cached)
    finally:
        fresh.unlink(missing_ok=True)
    return cached.read_text(encoding="utf-8")


def _run_maven(release: str, jdk: Jdk, destination: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise UnavailableError("Maven (mvn), which fetches OpenSearch's artifacts, is not on the PATH.")
    command = [maven, "--quiet", "--batch-mode", "--file", str(POM), "--activate-profiles", release]
    command += ["dependency:build-classpath", "-DincludeScope=runtime", f"-Dmdep.outputFile={destination}"]
    environment = {**os.environ, "JAVA_HOME": str(jdk.home)}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MAVEN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"Maven did not resolve {release} within {MAVEN_SECONDS} s.") from error
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-1500:]
        raise UnavailableError(f"Maven could not resolve {release}: {said}")
