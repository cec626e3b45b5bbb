"""What operators and sensors have in common: arguments that came through a template, and a wait that survives."""
