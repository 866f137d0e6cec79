"""Where memory lies, and what fits."""
