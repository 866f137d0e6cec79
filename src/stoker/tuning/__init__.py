"""What to try next and what to believe: pure, from a space and its trials alone."""
