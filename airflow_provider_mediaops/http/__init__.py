"""Call flows with a web service and what drives them: transport, retry, rate, authentication, errors."""

#: The default limit of a reply's size, in bytes after decompression. It is here for readers of a task's arguments: they
#: load no more than this.
MAX_REPLY_BYTES = 64 * 1024 * 1024
