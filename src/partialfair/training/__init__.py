"""The fit of a linear model: samples, constraints and settings in, model and result out."""
