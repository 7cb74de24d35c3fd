from airflow_provider_mediaops.hooks.video import VideoPlatformHook

with VideoPlatformHook("mediaops_video_default") as hook:
    first = hook.list_subscriptions(mine=True, part=["snippet"], max_results=50)
    second = hook.list_subscriptions(mine=True, part=["snippet"], max_results=50, page_token=first.next_page_token)
    again = hook.list_subscriptions(mine=True, part=["snippet"], max_results=50, page_token=second.prev_page_token)

    for subscription in hook.iter_subscriptions(mine=True):
        print(subscription.id, subscription.title)
