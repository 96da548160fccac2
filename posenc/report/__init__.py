"""What pages of lab, benchmark and inspection are made of: markup, pictures, numbers in words."""
