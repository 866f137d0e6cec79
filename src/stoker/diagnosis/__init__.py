"""From logs, kernel records, replies and facts to the first cause and what would mend it. Pure."""
