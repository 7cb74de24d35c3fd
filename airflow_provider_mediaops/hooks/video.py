"""The hook of the video platform."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.arguments import read_flag, shown
from airflow_provider_mediaops.connection_fields import VIDEO
from airflow_provider_mediaops.exceptions import InvalidConnectionError, UncertainDeliveryError
from airflow_provider_mediaops.hooks.base import ConnectionCheck, Service, ServiceHook
from airflow_provider_mediaops.hooks.connection import (
    base_urls,
    rate_limiter,
    retry_policy,
    split_address,
    transport_settings,
)
from airflow_provider_mediaops.http.auth import Auth, RefreshTokenAuth

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from airflow_provider_mediaops.hooks.connection import ConnectionFields
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.video.at_most_once import AlreadyPosted, Delivery
    from airflow_provider_mediaops.video.models import Activity, Subscription, SubscriptionPage
    from airflow_provider_mediaops.video.paging import ListedPage


class SubscriptionArguments(TypedDict, total=False):
    """
    The arguments of a listing; see :class:`~airflow_provider_mediaops.video.arguments.SubscriptionQuery`.

    Exactly one of ``channel_id``, ``ids`` and ``mine=True`` selects the subscriptions. A list may also be one text with
    commas.
    """

    channel_id: str
    ids: str | Sequence[str]
    mine: bool
    part: str | Sequence[str]
    for_channel_ids: str | Sequence[str]
    order: str
    max_results: int


class ListingArguments(SubscriptionArguments, total=False):
    """
    The arguments of a listing of all pages, which are the largest without ``max_results``.

    ``page_token`` is the token of the first page to fetch, if that is not the first of all. If the service cuts the
    listing short, it ends with an ``InvalidReplyError`` with ``require_complete``; else the log warns.
    """

    page_token: str | None
    require_complete: bool


class VideoPlatformHook(ServiceHook):
    """
    Post bulletins and list subscriptions.

    :param video_conn_id: the connection's id, of type ``mediaops_video``.
    """

    service_package = "airflow_provider_mediaops.video"
    conn_type = VIDEO
    conn_name_attr = "video_conn_id"
    default_conn_name = "mediaops_video_default"

    def __init__(self, video_conn_id: str = default_conn_name) -> None:
        super().__init__(video_conn_id)
        self.video_conn_id = self.conn_id
        self._kind_prefix = "svc"

    def post_bulletin(
        self, text: str | None = None, video_id: str | None = None, playlist_id: str | None = None
    ) -> Activity:
        """
        Post a bulletin to the channel of the authorised user.

        :param text: its message; may stand alone or with a video or playlist.
        :param video_id: a video to attach.
        :param playlist_id: a playlist to attach, instead of a video.
        :returns: the activity that the service returned.
        :raises ValueError: for a bulletin that the service would refuse, before anything is sent.
        :raises UncertainDeliveryError: if it may have been posted although no reply says so; it is not repeated.
        :raises MediaOpsError: if the service refuses it.
        """
        return self.run(self.posting(text, video_id, playlist_id, lambda: None))

    def posting(
        self, text: str | None, video_id: str | None, playlist_id: str | None, begin: Callable[[], Delivery | None]
    ) -> CallFlow[Activity]:
        """Return :meth:`post_bulletin` as a call flow; ``begin`` reads the record of earlier tries, if there is one."""
        from airflow_provider_mediaops.http.exchange import Blocking
        from airflow_provider_mediaops.video.arguments import Bulletin

        bulletin = Bulletin(text, video_id, playlist_id)
        delivery: Delivery | None = yield Blocking(begin)
        if delivery and delivery.already_posted:
            return self._found(delivery.already_posted)
        service = yield from self.current_service()
        sending = service.ask(bulletin.post(self._kind_prefix))
        try:
            activity = yield from delivery.around(sending) if delivery else sending
        except UncertainDeliveryError:
            metrics.count("video.posts.uncertain")
            raise
        # Another task may have posted meanwhile.
        if delivery and delivery.already_posted:
            return self._found(delivery.already_posted)
        metrics.count("video.posts.posted")
        self.log.info("Posted bulletin %s.", activity.id)
        return activity

    def _found(self, posted: AlreadyPosted) -> Activity:
        from airflow_provider_mediaops.video.models import Activity

        self.log.info("%s", posted)
        return Activity.model_validate(posted.activity)

    def list_subscriptions(
        self, *, page_token: str | None = None, **query: Unpack[SubscriptionArguments]
    ) -> SubscriptionPage:
        """
        Fetch one page of subscriptions.

        :param page_token: the ``next_page_token`` or ``prev_page_token`` of another page of the same listing.
        :param query: whose subscriptions, and how; see :class:`SubscriptionArguments`.
        :returns: the page, its records as they came.
        :raises ValueError: if an argument cannot be used, before anything is sent.
        :raises MediaOpsError: if the service refuses.
        """
        from airflow_provider_mediaops.video.arguments import SubscriptionQuery

        return self.ask(SubscriptionQuery(**query).page(page_token))

    def iter_subscription_pages(self, **query: Unpack[ListingArguments]) -> Iterator[SubscriptionPage]:
        """
        Yield all pages, lazily and as they came; a record that the service sends twice is in two of them.

        :param query: whose subscriptions, and how; see :class:`ListingArguments`.
        :returns: the pages.
        """
        for listed in self._pages(**query):
            yield listed.page

    def iter_subscriptions(self, **query: Unpack[ListingArguments]) -> Iterator[Subscription]:
        """
        Yield all subscriptions, lazily and each once.

        :param query: whose subscriptions, and how; see :class:`ListingArguments`.
        :returns: the subscriptions, in the service's order.
        """
        from airflow_provider_mediaops.video.models import read_subscription

        for listed in self._pages(**query):
            yield from map(read_subscription, listed.fresh)

    def _pages(
        self,
        *,
        page_token: str | None = None,
        require_complete: object = False,
        **query: Unpack[SubscriptionArguments],
    ) -> Iterator[ListedPage]:
        from airflow_provider_mediaops.video.arguments import LARGEST_PAGE, SubscriptionQuery, read_page_size
        from airflow_provider_mediaops.video.paging import Listing, list_pages

        query["max_results"] = read_page_size("max_results", query.get("max_results", LARGEST_PAGE), minimum=1)
        required = read_flag("require_complete", require_complete)
        listing = Listing(SubscriptionQuery(**query), page_token, self.log.warning, require_complete=required)
        return self.stream(list_pages(self.service.ask, listing))

    def _configure(self, fields: ConnectionFields) -> Service:
        from airflow_provider_mediaops.http.client import Client
        from airflow_provider_mediaops.video.errors import REFRESHED_RULES, VIDEO_RULES

        self._kind_prefix = fields.text("kind_prefix", "svc")
        urls, auth = base_urls(fields), self._auth(fields)
        limiter = rate_limiter(fields, VIDEO_RULES.service, _counted_by(fields, auth, urls))
        rules = REFRESHED_RULES if isinstance(auth, RefreshTokenAuth) else VIDEO_RULES
        client = Client(urls, rules, auth=auth, retry=retry_policy(fields), limiter=limiter)
        return Service(client, transport_settings(fields), client.ask)

    def _auth(self, fields: ConnectionFields) -> Auth:
        kind = fields.value("auth")
        if kind == "none":
            return Auth()
        if kind == "refresh_token":
            return self._refresh_auth(fields)
        if kind == "api_key":
            key = fields.credential("the API key, with auth=api_key")
            return Auth(secrets=(key,), params=(("key", key),))
        return Auth.bearer(fields.credential("the access token, with auth=bearer"))

    def _refresh_auth(self, fields: ConnectionFields) -> RefreshTokenAuth:
        from airflow_provider_mediaops.video.errors import TOKEN_RULES

        token_url = fields.required("token_url", "the address that exchanges tokens, with auth=refresh_token")
        split_address(fields, "token_url", token_url)
        return RefreshTokenAuth(
            token_url=token_url,
            client_id=fields.required("login", "the client id, with auth=refresh_token"),
            client_secret=fields.required("password", "the client secret, with auth=refresh_token"),
            refresh_token=fields.required("refresh_token", "the user's refresh token, with auth=refresh_token"),
            scopes=fields.text("scopes"),
            token_rules=TOKEN_RULES,
            on_secret=self._mask,
            on_rotated=self._warn_of_rotation,
        )

    def _warn_of_rotation(self) -> None:
        # A task can read a connection, but not change it, and any DAG could read a variable.
        self.log.warning(
            "The token service replaced the refresh token of connection %r. This task goes on with the new one, but "
            "Airflow lets no task store it: later tasks use the old one, which may be revoked. Authorise the "
            "application again and put the new refresh token into the connection, or let the token service keep "
            "refresh tokens unchanged.",
            self.conn_id,
        )

    def _test(self, client: Client) -> CallFlow[ConnectionCheck]:
        from airflow_provider_mediaops.video.arguments import SubscriptionQuery

        # One unit of quota; an API key may not ask for "mine", and any channel will do for it.
        asked: SubscriptionArguments = {"mine": True, "part": ("id",), "max_results": 1}
        if client.auth.params or client.auth == Auth():
            asked = {"ids": ("connection-test",), "part": ("id",), "max_results": 1}
        page = yield from client.ask(SubscriptionQuery(**asked).page())
        yield from client.restore_quota()
        # The service says by itself what stands before # in its kinds.
        prefix, separator, _ = (page.kind or "").partition("#")
        if separator and prefix != self._kind_prefix:
            raise InvalidConnectionError(
                f"Connection {self.conn_id!r}, field 'kind_prefix': it is {shown(self._kind_prefix)}, but the service "
                f"answers with kinds such as {shown(page.kind)}. Write {shown(prefix)}."
            )
        return ConnectionCheck("The video platform answers and accepts the credentials.")


def _counted_by(fields: ConnectionFields, auth: Auth, urls: Sequence[str]) -> str:
    """Return the name that the service counts requests by."""
    if auth == Auth():
        return urls[0]
    # Access tokens that are refreshed come and go; the quota belongs to the client's project.
    return auth.client_id if isinstance(auth, RefreshTokenAuth) else fields.password
