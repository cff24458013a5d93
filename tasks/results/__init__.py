"""Where results lie: a folder or a bucket."""
