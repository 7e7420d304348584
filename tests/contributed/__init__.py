"""What a newcomer would write from the skeletons: nothing of the library knows these files."""
