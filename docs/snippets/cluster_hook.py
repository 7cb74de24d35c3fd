from airflow_provider_mediaops.hooks.cluster import SearchClusterHook

with SearchClusterHook("mediaops_cluster_default") as hook:
    report = hook.hot_threads_report(threads=5, interval="200ms")
    for node in report.nodes:
        for thread in node.threads:
            print(node.name, thread.cpu_percent, thread.name, len(thread.groups))
    for usage in hook.cpu():
        print(usage.name, usage.percent, usage.source)
