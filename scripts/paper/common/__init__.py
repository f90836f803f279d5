"""What several studies share: the report that each writes, and random networks with their simulation."""
