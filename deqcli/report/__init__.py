"""One static page from a folder of results: figures, verdicts, errata, commands, provenance."""
