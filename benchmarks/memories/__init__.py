"""Short memories of several people and projects, and what one would later ask: see README.md beside this file."""
