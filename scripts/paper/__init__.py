"""The LTC paper measured again, one folder a study."""
