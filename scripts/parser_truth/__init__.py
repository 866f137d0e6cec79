"""What engines' own parsers make of canonical outputs; see scripts/record_parser_truth.py."""
