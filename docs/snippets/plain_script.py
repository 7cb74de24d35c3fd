import sys

from airflow_provider_mediaops.http.auth import Auth
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.runner import run
from airflow_provider_mediaops.http.settings import TransportSettings
from airflow_provider_mediaops.http.transport import Transport
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from airflow_provider_mediaops.video.errors import VIDEO_RULES

address, token = sys.argv[1:]
client = Client((address,), VIDEO_RULES, auth=Auth.bearer(token))
with Transport(TransportSettings()) as transport:
    page = run(client.ask(SubscriptionQuery(mine=True).page()), transport.send)
print(len(page.items))
