"""What a server that is written in Java is started from: a JDK of this machine, and published Maven artifacts."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MAVEN_SECONDS = 600
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
# In a JDK's file "release". Java 8 called itself 1.8.
VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


class UnavailableError(Exception):
    """This machine cannot start a server; the message says what it lacks."""


@dataclass(frozen=True)
class Jdk:
    """A Java development kit: a runtime has no compiler, and the programs of nodes are started from their source."""

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


def resolved_class_path(name: str, pom: Path, cache: Path, jdk: Jdk, options: Sequence[str] = ()) -> str:
    """Resolve a Java class path: the first time by Maven, then from the checkout's cache.

    :param name: what the artifacts make up, in a word
    :param pom: lists them
    :param cache: a folder
    :param jdk: runs Maven
    :param options: further options of Maven
    :raises UnavailableError: there is no Maven, or it could not get the artifacts
    """
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    cached = cache / f"{name}-{digest}.classpath"
    if cached.exists():
        path = cached.read_text(encoding="utf-8")
        if all(Path(jar).exists() for jar in path.split(os.pathsep)):
            return path
    cache.mkdir(parents=True, exist_ok=True)
    # Complete or not there at all, also when two sessions build it at once.
    fresh = cached.with_suffix(f".{os.getpid()}")
    goal = ["dependency:build-classpath", "-DincludeScope=runtime", f"-Dmdep.outputFile={fresh}"]
    try:
        _run_maven(name, ["--file", str(pom), *options, *goal], jdk)
        fresh.replace(cached)
    finally:
        fresh.unlink(missing_ok=True)
    return cached.read_text(encoding="utf-8")


def resolved_zip(group: str, artifact: str, version: str, *, cache: Path, jdk: Jdk) -> Path:
    """Resolve a published ZIP file: the first time by Maven, then from the checkout's cache.

    :param group: the artifact's group
    :param artifact: its name
    :param version: its version
    :param cache: a folder
    :param jdk: runs Maven
    :raises UnavailableError: there is no Maven, or it could not get the artifact
    """
    cached = cache / f"{artifact}-{version}.zip"
    if cached.exists():
        return cached
    fresh = cache / f"{os.getpid()}"
    goal = [f"{DEPENDENCY_PLUGIN}:copy", f"-Dartifact={group}:{artifact}:{version}:zip", f"-DoutputDirectory={fresh}"]
    try:
        _run_maven(f"{artifact} {version}", goal, jdk)
        (fresh / cached.name).replace(cached)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return cached


def _run_maven(name: str, options: Sequence[str], jdk: Jdk) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise UnavailableError(f"Maven (mvn), which fetches {name}, is not on the PATH.")
    command = [maven, "--quiet", "--batch-mode", *options]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "JAVA_HOME": str(jdk.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MAVEN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"Maven did not resolve {name} within {MAVEN_SECONDS} s.") from error
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-1500:]
        raise UnavailableError(f"Maven could not resolve {name}: {said}")
