"""Recording what a circuit does, and the file that holds it."""
