"""Bulletins: the body that posts one, what is checked in it, and what the platform keeps of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from airflow_provider_mediaops.sandbox.clock import iso_milliseconds
from airflow_provider_mediaops.sandbox.refusals import video_refusal
from airflow_provider_mediaops.sandbox.video import subscriptions

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.state import SandboxState

VIDEOS = ("sandbox-video-1", "sandbox-video-2", "sandbox-video-3")
PLAYLISTS = ("sandbox-playlist-1", "sandbox-playlist-2")


class _CamelCase(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class Snippet(_CamelCase):
    """A bulletin's text."""

    description: str | None = Field(default=None, description="The text of the bulletin.")


class ResourceId(_CamelCase):
    """The video or playlist that a bulletin carries."""

    kind: str | None = Field(default=None, description="`svc#video` or `svc#playlist`; `--kind-prefix` replaces `svc`.")
    video_id: str | None = Field(default=None, description="The video to attach.")
    playlist_id: str | None = Field(default=None, description="The playlist to attach.")


class Bulletin(_CamelCase):
    """What a bulletin carries besides its text."""

    resource_id: ResourceId | None = None


class ContentDetails(_CamelCase):
    """The bulletin within an activity."""

    bulletin: Bulletin | None = None


class Activity(_CamelCase):
    """An activity as it is posted."""

    snippet: Snippet | None = None
    content_details: ContentDetails | None = None


def kept(activity: Activity, parts: Iterable[str], sandbox: SandboxState) -> dict[str, Any]:
    """Keep a bulletin, and return the activity with all its parts."""
    written = activity.model_dump(by_alias=True, exclude_none=True)
    _check(activity, {*parts}, {*written}, prefix=sandbox.settings.kind_prefix)
    resource: dict[str, Any] = {
        "kind": f"{sandbox.settings.kind_prefix}#activity",
        "id": f"BULLETIN-{len(sandbox.bulletins) + 1:06d}",
        **written,
    }
    if "snippet" in written:
        resource["snippet"] = {
            "publishedAt": iso_milliseconds(sandbox.clock.now()),
            "channelId": subscriptions.MINE,
            "type": "bulletin",
            **written["snippet"],
        }
    whole = {**resource, "etag": subscriptions.etag_of(resource)}
    sandbox.bulletins.append(whole)
    return whole


def _check(activity: Activity, parts: set[str], properties: set[str], *, prefix: str) -> None:
    for name in sorted(properties - parts):
        raise video_refusal(400, "unexpectedPart", f"The body holds {name}, which part does not name.", location=name)
    for name in sorted(parts - properties):
        raise video_refusal(400, "missingPart", f"part names {name}, which the body does not hold.", location="part")
    bulletin = activity.content_details and activity.content_details.bulletin
    resource = bulletin and bulletin.resource_id
    if resource:
        _check_resource(resource, prefix)
    elif not activity.snippet or not (activity.snippet.description or "").strip():
        message = "A bulletin without a video or playlist needs a text in snippet.description."
        raise video_refusal(400, "bulletinTextRequired", message, location="snippet.description")


def _check_resource(resource: ResourceId, prefix: str) -> None:
    kinds = {
        (f"{prefix}#video", True, False): (resource.video_id, VIDEOS, "video"),
        (f"{prefix}#playlist", False, True): (resource.playlist_id, PLAYLISTS, "playlist"),
    }
    shape = (resource.kind, resource.video_id is not None, resource.playlist_id is not None)
    if shape not in kinds:
        message = f"kind is {prefix}#video with videoId alone, or {prefix}#playlist with playlistId alone."
        raise video_refusal(400, "invalidMetadata", message, location="contentDetails.bulletin.resourceId")
    wanted, known, what = kinds[shape]
    if wanted not in known:
        raise video_refusal(404, f"{what}NotFound", f"There is no such {what}.", location=f"{what}Id")
