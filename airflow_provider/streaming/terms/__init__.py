"""The words of a job: times, windows, steps, types, policies, and how arguments are refused."""
