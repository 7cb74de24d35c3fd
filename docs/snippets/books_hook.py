from airflow_provider_mediaops.hooks.books import BookDatabaseHook

with BookDatabaseHook("mediaops_books_default") as hook:
    print(hook.book("978-0-14-044913-6").title)
    for lookup in hook.books(["0-306-40615-2", "not an ISBN"]):
        print(lookup.input, lookup.status)
