"""What the pages of posenc ask of Sphinx: directives, formulas, search, reference."""
