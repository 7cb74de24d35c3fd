"""The book database: ISBNs, models of its records, its calls, and enrichment of lists."""
