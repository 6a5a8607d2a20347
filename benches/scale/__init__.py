"""Models on more cores than there are, by simulation."""
