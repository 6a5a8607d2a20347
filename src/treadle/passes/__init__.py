"""Graph to Graph, and in the end Graph to Plan. Verb-first, one pass a file; `pipeline` lists them."""
