"""The store of results: a folder or a bucket."""
