"""Building blocks of strategies: random streams, canonical order, hashing, dealing and the locked part."""
