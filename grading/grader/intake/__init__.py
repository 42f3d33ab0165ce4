"""What was handed in: submissions taken out of folders and archives, and source that can be parsed without harm."""
