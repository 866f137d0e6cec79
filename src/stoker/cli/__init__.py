"""The command line. Each verb parses its words, calls one command and prints what came back."""
