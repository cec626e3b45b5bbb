"""What an application's job is made of, the topics that follow from it, and what may change."""
