"""What neurons share that are updated layer by layer within a step."""
