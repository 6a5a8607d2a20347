"""Direct convolution into the blocked layout."""
