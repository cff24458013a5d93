"""Groups are packed into bins of given shares: cost, start, exchanges, exact search and bounds."""
