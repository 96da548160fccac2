"""What pages of the lab and of the benchmark are made of: markup, pictures, numbers in words."""
