"""Methods that are trained on for a few steps before they are measured."""
