"""What a trained model does with positions, as numbers of its tables, queries, keys and scores."""
