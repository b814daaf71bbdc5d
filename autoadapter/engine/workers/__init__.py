"""Scripts that run in another interpreter; nothing of AutoAdapter's own process imports them."""
