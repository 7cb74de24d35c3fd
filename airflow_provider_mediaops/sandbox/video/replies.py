"""The replies of the video platform: their fields, and how a request's common parameters shape them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastapi import Response

from airflow_provider_mediaops.sandbox.refusals import video_refusal
from airflow_provider_mediaops.sandbox.video.selection import (
    Path,
    SelectorError,
    Tree,
    matching,
    parse,
    select,
    tree_of,
)

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.video.parameters import CommonParameters

_SIZE = "url,width,height"
_THUMBNAILS = f"thumbnails(default({_SIZE}),medium({_SIZE}),high({_SIZE}),standard({_SIZE}),maxres({_SIZE}))"
_RESOURCE_ID = "resourceId(kind,channelId,playlistId,videoId)"
#: Every field that a page of subscriptions can have on the public service; those that the sandbox leaves out included.
SUBSCRIPTION_PAGE = tree_of(
    "kind,etag,eventId,visitorId,nextPageToken,prevPageToken,tokenPagination,pageInfo(totalResults,resultsPerPage),"
    f"items(kind,etag,id,snippet(publishedAt,channelId,title,description,{_RESOURCE_ID},{_THUMBNAILS}),"
    "contentDetails(totalItemCount,newItemCount,activityType),"
    f"subscriberSnippet(channelId,title,description,{_THUMBNAILS}))"
)
#: Every field that a bulletin can have.
BULLETIN = tree_of(
    "kind,etag,id,"
    f"snippet(publishedAt,channelId,channelTitle,title,description,type,groupId,{_THUMBNAILS}),"
    f"contentDetails(bulletin({_RESOURCE_ID}))"
)


class Shape:
    """
    What a request wants its reply to look like.

    :param parameters: the request's.
    :param tree: the fields that the reply can have.
    :raises RefusedError: if ``fields`` names another one.
    """

    def __init__(self, parameters: CommonParameters, tree: Tree) -> None:
        self._indent = 2 if parameters.pretty_print == "true" else None
        self._paths: set[Path] = {()}
        if parameters.fields is None:
            return
        try:
            self._paths = matching(parse(parameters.fields), tree)
        except SelectorError as error:
            refusal = video_refusal(400, "invalidParameter", "Request contains an invalid argument.", location="fields")
            violation = {"field": parameters.fields, "description": str(error)}
            refusal.body["error"]["details"] = [
                {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}
            ]
            raise refusal from None

    def reply(self, body: dict[str, Any]) -> Response:
        """
        Return the reply in this shape.

        :param body: the whole reply, as JSON values.
        """
        text = json.dumps(select(body, self._paths), indent=self._indent, ensure_ascii=False)
        return Response(f"{text}\n", media_type="application/json; charset=UTF-8")
