"""What to fetch next: the seam (`base`) and its backends."""
