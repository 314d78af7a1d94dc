"""The paper's experiments as records: runs with keys, kept on disk, resumed, read as figures and tables."""
