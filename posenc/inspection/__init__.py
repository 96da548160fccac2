"""What positions do in a trained model: `posenc inspect`, its numbers in JSON and its page."""
