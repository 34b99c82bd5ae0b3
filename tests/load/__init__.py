"""`webmill serve` under load: well-behaved clients beside abusive ones. `make load` measures it."""
