"""Other people's libraries, one module for each, which imports that library; the package imports none of them."""
