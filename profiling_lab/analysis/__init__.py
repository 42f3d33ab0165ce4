"""What is computed of recordings: intervals of time, and what rests on them."""
