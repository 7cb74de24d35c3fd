"""Looking up a list of ISBNs: what to ask next, the requests, the rows in and out."""
