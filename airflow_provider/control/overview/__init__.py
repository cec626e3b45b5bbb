"""What `status` and the page say of an application: whether all is well, what is wrong, and what to do next."""
