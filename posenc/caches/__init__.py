"""Keys and values kept while decoding, one file per kind of cache; and keys turned again."""
