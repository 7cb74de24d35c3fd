"""Call flows with a web service and what drives them: transport, retry, rate, authentication, errors."""
