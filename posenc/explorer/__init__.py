"""The explorer: one HTML page that shows how position encodings work; `bundle` puts it together."""
