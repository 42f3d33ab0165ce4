"""A class at a time: what is to be judged, on this machine or a cluster, kept as it comes."""
