"""What a batch came to, for people and other programs: marks, who is alike, gradebooks, feedback, the class page."""
