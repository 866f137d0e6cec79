"""What a person runs by hand in this checkout; nothing here ships with the package."""
