"""What all packages use: checks of arguments, files, the clock of a fit, types, texts."""
