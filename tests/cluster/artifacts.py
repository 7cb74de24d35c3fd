"""What a node is started from: the releases of OpenSearch that are known here, and which of them can be started."""

from __future__ import annotations

from pathlib import Path

from tests.java_artifacts import Jdk, UnavailableError, installed_jdks, resolved_class_path

FOLDER = Path(__file__).parent
POM = FOLDER / "pom.xml"
CACHE = FOLDER.parents[1] / ".cache" / "opensearch"

LOWEST_JAVA = {"opensearch-2": 11, "opensearch-3": 21}
"""The releases that can be started (profiles of pom.xml), each with the first Java it runs on."""


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
    """Resolve the Java class path of a release.

    :param release: one of :data:`LOWEST_JAVA`
    :param jdk: runs Maven
    :raises UnavailableError: there is no Maven, or it could not get the artifacts
    """
    return resolved_class_path(release, POM, CACHE, jdk, ["--activate-profiles", release])
