"""What a camera costs: the time and memory of a step, for every method, beside the stock model and the floor."""
