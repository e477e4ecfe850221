"""What is proven of both sites, and what is compared next. Pure."""
