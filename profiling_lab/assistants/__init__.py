"""What assistants ask about recordings: `answers` gives bounded plain data, `server` gives it over MCP.

Nothing here writes. Files are read only where the user pointed when the server was started.
"""
