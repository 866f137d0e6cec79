"""What Stoker costs and how it compares; `make bench` and `make bench-report` call it."""
