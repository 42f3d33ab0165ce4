"""The engine that decides by itself what slows a recorded program down."""
