"""What is said of an application, whoever asks: whether all is well, what is wrong, and what to do next."""
