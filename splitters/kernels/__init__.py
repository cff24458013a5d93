"""What strategies are made of: random streams, canonical order, hashing, dealing and the locked part."""
