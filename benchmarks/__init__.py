"""Side by side with peers: one command, ratios and no seconds."""
