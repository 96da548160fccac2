// Encodings that have no JavaScript here, by name, as tables.py tells of them: filled in by bundle.py.
export default {};
