"""The stand-in for the video platform."""
