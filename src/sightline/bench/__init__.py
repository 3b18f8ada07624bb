"""What a camera costs: time and memory of a step for every method, beside the stock model and the roofline."""
