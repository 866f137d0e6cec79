"""Values as text for a person. Pure: returns strings, prints nothing."""
